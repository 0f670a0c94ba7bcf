/// Items of the Responses API -> messages in the form that templates know (api/chat/messages.h).
///
/// One turn of the assistant is several items here: its thinking, its text and its calls, which the templates want in
/// one message. A turn ends where somebody else speaks, or where a second text follows the first at once.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::api::responses {

inline constexpr size_t kItemsMax = 16'384;  ///< of one conversation, what came before it included

class Transcript {
 public:
  void add_instructions(std::string_view text);
  /// `item` as clients send it and as output has it. Errors (kInvalidArgument, kUnsupported) name the field within
  /// `path`, "input[3]". Items of tools that this server does not run have no part in the messages.
  Result<void> add(const nlohmann::ordered_json& item, const std::string& path);

  size_t items() const { return items_; }
  const nlohmann::ordered_json& messages() const { return messages_; }
  nlohmann::ordered_json take_messages() { return std::move(messages_); }
  /// Types of items that were left out.
  const std::set<std::string>& left_out() const { return left_out_; }

 private:
  Result<void> add_message(const nlohmann::ordered_json& item, const std::string& path);
  Result<void> add_reasoning(const nlohmann::ordered_json& item, const std::string& path);
  Result<void> add_call(const nlohmann::ordered_json& item, const std::string& path);
  Result<void> add_call_output(const nlohmann::ordered_json& item, const std::string& path);
  /// The assistant's message that items may still join.
  nlohmann::ordered_json& turn();

  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
  bool in_turn_ = false;
  bool said_text_ = false;                             // the last item was text of the assistant
  std::map<std::string, bool, std::less<>> answered_;  // by call_id
  std::set<std::string> left_out_;
  size_t items_ = 0;
};

/// An item's type, also where clients may leave it out: a message has a role, a reference an id and nothing else.
/// Empty: nobody can tell.
std::string item_type(const nlohmann::ordered_json& item);

}  // namespace cairn::api::responses
