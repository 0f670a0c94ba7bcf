/// Items of the Responses API -> messages in the form that templates know (api/chat/messages.h).
///
/// One turn of the assistant is several items here: its thinking, its text and its calls, which the templates want in
/// one message. A turn ends where somebody else speaks, or where a second text follows the first at once.
///
/// History is data: items of a type that has no part in the messages are left out, a picture or a file in a tool's
/// output becomes a text that says what stood there, and calls and outputs are taken also where one lacks the other.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/responses/tools.h"
#include "base/error.h"

namespace cairn::api::responses {

inline constexpr size_t kItemsMax = 16'384;  ///< of one conversation, what came before it included
/// What begins the content of a compaction item that was made here: a summary follows. Others are encrypted elsewhere.
inline constexpr std::string_view kSummaryMark = "cairn-summary:";

class Transcript {
 public:
  void add_instructions(std::string_view text);
  /// `item` as clients send it and as output has it. Errors (kInvalidArgument, kUnsupported) name the field within
  /// `path`, "input[3]".
  Result<void> add(const nlohmann::ordered_json& item, const std::string& path);

  size_t items() const { return items_; }
  const nlohmann::ordered_json& messages() const { return messages_; }
  nlohmann::ordered_json take_messages() { return std::move(messages_); }
  /// Types of items and parts that were left out.
  const std::set<std::string>& left_out() const { return left_out_; }
  /// What searches of the client have found.
  ToolList take_found() { return std::move(found_); }

 private:
  Result<void> add_message(const nlohmann::ordered_json& item, const std::string& path);
  Result<void> add_reasoning(const nlohmann::ordered_json& item, const std::string& path);
  Result<void> add_function_call(const nlohmann::ordered_json& item, const std::string& path);
  Result<void> add_custom_call(const nlohmann::ordered_json& item, const std::string& path);
  Result<void> add_search_call(const nlohmann::ordered_json& item, const std::string& path);
  Result<void> add_call(const nlohmann::ordered_json& item, std::string name, nlohmann::ordered_json arguments,
                        const std::string& path);
  Result<void> add_call_output(const nlohmann::ordered_json& item, const std::string& path);
  Result<void> add_search_output(const nlohmann::ordered_json& item, const std::string& path);
  Result<void> add_compaction(const nlohmann::ordered_json& item, const std::string& path);
  void add_output(const nlohmann::ordered_json& item, nlohmann::ordered_json content);
  /// A string, or an array of parts: their texts. `stand_ins`: what is no text becomes one that says what stood there.
  Result<std::vector<std::string>> texts(const nlohmann::ordered_json& value, const std::string& path, bool stand_ins);
  /// The assistant's message that items may still join.
  nlohmann::ordered_json& turn();

  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
  bool in_turn_ = false;
  bool said_text_ = false;               // the last item was text of the assistant
  bool behind_output_ = false;           // the last item was a tool's output
  std::vector<std::string> unanswered_;  // call_ids of the last turn, the oldest first
  std::set<std::string> left_out_;
  ToolList found_;
  size_t items_ = 0;
};

/// An item's type, also where clients may leave it out: a message has a role, a reference an id and nothing else.
/// Empty: nobody can tell.
std::string item_type(const nlohmann::ordered_json& item);

}  // namespace cairn::api::responses
