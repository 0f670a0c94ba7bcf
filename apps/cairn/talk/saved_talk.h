/// Conversations in files: /save and /load.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace cairn {

/// What is said, without the system message, and what the system message is.
struct Talk {
  std::string system;
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();

  /// All messages as a model gets them.
  nlohmann::ordered_json whole() const;
};

/// "~/x" -> "x" in the home folder.
std::string expand_home(const std::string& path);

/// Writes {"model", "messages"}, which is also the body of a request to /v1/chat/completions. It replaces a saved
/// conversation, and no other file. Errors: kInvalidArgument, another file has the name; kIo.
Result<void> save_talk(const std::string& path, const std::string& model, const Talk& talk);
/// Reads such a file, or the array of messages alone. Errors: those of read_text_file; kInvalidArgument, with the
/// message that a conversation in a terminal cannot go on from.
Result<Talk> load_talk(const std::string& path);

}  // namespace cairn
