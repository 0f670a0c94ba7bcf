/// Calls written as JSON objects, {"name": ..., "arguments": {...}}, alone, one after the other or in a list.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "chat/tool_calls/argument_writer.h"
#include "chat/tool_calls/tool_call_parser.h"

namespace cairn::chat::tool_call {

struct JsonStyle {
  std::string_view closer{};  ///< text that ends the block; empty: the list ends it, or whatever follows an object
  bool ids = false;           ///< "id" is the call's id, and the template takes it back
  bool name_is_key = false;   ///< {"name": {arguments}}
};

/// Decodes a JSON string's bytes, without its quotes, into its text. The JSON must be valid.
class StringDecoder {
 public:
  void push(char byte, std::string& text);

 private:
  bool inside_ = false;
  std::string escape_;
  std::string high_;
};

class JsonCalls final : public ToolCallParser {
 public:
  explicit JsonCalls(const JsonStyle& style) : style_(style) {}
  Step push(char byte, PartWriter& parts) override;
  void cut_call(PartWriter& parts) override;
  std::string unsent(std::string_view since_part) const override;
  bool between_calls() const override { return state_ == State::kAfter || (ended_ && state_ == State::kAfterValue); }

 private:
  enum class State {
    kStart,
    kKeyOrClose,
    kKey,
    kColon,
    kValue,
    kName,
    kId,
    kArguments,
    kEncoded,  // arguments as a string that contains JSON
    kSkipped,
    kAfterValue,
    kAfter,
  };
  Step push_start(char byte);
  Step push_structure(char byte, PartWriter& parts);
  Step begin_value(char byte, PartWriter& parts);
  Step push_value(char byte, PartWriter& parts);
  Step push_encoded(const std::string& json, PartWriter& parts);
  Step push_after(char byte);
  Step object_ended(PartWriter& parts);
  Step named(PartWriter& parts);
  Step arguments_ended(PartWriter& parts);
  void give(PartWriter& parts, std::string_view bytes);
  void begin_object();

  JsonStyle style_;
  State state_ = State::kStart;
  bool in_list_ = false;
  size_t closer_seen_ = 0;
  size_t after_bytes_ = 0;  // bytes since the last call and its closing text

  // State of the current object.
  bool nested_ = false;  // within {"function": {...}}
  bool begun_ = false;
  bool ended_ = false;
  bool has_arguments_ = false;
  std::string key_;
  std::string name_;
  std::string id_;
  std::string early_;  // arguments that came before the name
  std::string text_;   // a name or id, as JSON
  ArgumentWriter value_;
  size_t value_bytes_ = 0;  // read of it
  ArgumentWriter encoded_;
  bool encoded_done_ = false;
  bool string_ended_ = false;  // that of the encoded arguments
  StringDecoder decoder_;
};

}  // namespace cairn::chat::tool_call
