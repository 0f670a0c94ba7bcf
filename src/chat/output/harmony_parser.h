/// Harmony, gpt-oss's format: messages with headers, <|start|>assistant<|channel|>NAME<|message|>TEXT<|end|>. The
/// channel analysis is reasoning, final and commentary are content; a recipient, to=functions.NAME in a header, makes a
/// call.
#pragma once

#include <string>
#include <string_view>

#include "chat/output/output_parser.h"
#include "chat/tool_calls/argument_writer.h"
#include "chat/tool_calls/marker_matcher.h"

namespace cairn::chat {

/// The text that begins the answer, behind its role.
inline constexpr std::string_view kHarmonyFinal = "<|channel|>final<|message|>";
/// The text that ends the thinking and begins the answer.
inline constexpr std::string_view kHarmonyAnswer = "<|end|><|start|>assistant<|channel|>final<|message|>";

class HarmonyParser final : public OutputParser::StreamParser {
 public:
  /// Without `calls`, messages to tools are content with their header.
  HarmonyParser(tool_call::ToolSchemas schemas, bool calls, std::string_view prompt);
  void push(char byte) override;
  void finish() override;
  bool in_reasoning() const override { return state_ == State::kBody && kind_ == PartKind::kReasoning; }

 private:
  enum class State { kBetween, kHeader, kBody, kCall };
  void found(int marker);
  void put(std::string_view text);
  void put_argument(char byte);
  void begin_body();
  void end_message();
  /// Turns what looked like a header into content.
  void reject_header();

  bool calls_;
  MarkerMatcher matcher_;
  State state_ = State::kHeader;
  PartKind kind_ = PartKind::kContent;  // kind of the message's body
  std::string header_;                  // as it came, only the part from this answer
  std::string role_;                    // the header's text before its channel
  std::string channel_;                 // the header's text after its channel
  bool in_channel_ = false;
  tool_call::ArgumentWriter arguments_;
  bool arguments_done_ = false;
  bool broken_ = false;          // the arguments go on as they come
  size_t since_part_bytes_ = 0;  // of the arguments, since they last made a part
};

}  // namespace cairn::chat
