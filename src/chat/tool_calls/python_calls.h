/// Calls written as Python: [get_weather(city="Bern"), now()], or one per line, with or without print(...) around them.
#pragma once

#include <string>
#include <string_view>

#include "chat/tool_calls/argument_writer.h"
#include "chat/tool_calls/tool_call_parser.h"

namespace cairn::chat::tool_call {

class PythonCalls final : public ToolCallParser {
 public:
  /// `closer` ends the block; empty: the list's bracket ends it, or text that is no call.
  explicit PythonCalls(std::string_view closer) : closer_(closer) {}
  Step push(char byte, PartWriter& parts) override;
  void cut_call(PartWriter& parts) override;
  std::string unsent(std::string_view since_part) const override;
  bool between_calls() const override { return calls_ > 0 && state_ == State::kAfter; }

 private:
  enum class State { kStart, kName, kArguments, kAfter };
  Step push_name(char byte, PartWriter& parts);
  Step push_after(char byte);

  std::string_view closer_;
  State state_ = State::kStart;
  bool in_list_ = false;
  bool in_print_ = false;
  int calls_ = 0;
  size_t closer_seen_ = 0;
  size_t after_bytes_ = 0;
  std::string name_;
  ArgumentWriter writer_;
};

}  // namespace cairn::chat::tool_call
