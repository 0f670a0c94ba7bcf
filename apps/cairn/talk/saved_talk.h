/// Conversations in files: /save and /load.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

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
/// message that a conversation in a terminal cannot go on from. `what` begins those of reading, as for read_text_file.
Result<Talk> load_talk(const std::string& path, std::string_view what = "/load");
/// The conversation of that file, or a new one if there is none. `system`: the system message in place of the file's;
/// empty: the file's. Errors: those of load_talk, for --load.
Result<Talk> begin_talk(const std::string& path, const std::string& system);

}  // namespace cairn
