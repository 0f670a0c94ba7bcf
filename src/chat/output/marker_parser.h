/// Parses output that is text with thinking and calls marked in it: every format but Harmony.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/output/output_parser.h"
#include "chat/tool_calls/marker_matcher.h"

namespace cairn::chat {

class MarkerParser final : public OutputParser::StreamParser {
 public:
  /// Either style may be null: then nothing is a call, or thinking.
  MarkerParser(tool_call::ToolSchemas schemas, const tool_call::ToolStyle* tools, const ReasoningStyle* thinking,
               std::string_view prompt);
  void push(char byte) override;
  void finish() override;
  bool in_reasoning() const override { return text_kind_ == PartKind::kReasoning && reader_ == nullptr; }
  bool in_syntax() const override;
  void expect_call() override;

 private:
  enum class MarkerKind { kThinkOpen, kThinkClose, kAnswerOpen, kAnswerClose, kCalls };
  struct Marker {
    MarkerKind kind;
    std::string_view text;
    const tool_call::BlockStart* block_start;
  };
  static std::vector<Marker> markers_of(const tool_call::ToolStyle* tools, const ReasoningStyle* thinking);

  void push_text(char byte);
  void push_call(char byte);
  void read_call(char byte);
  /// Gives the reader, or whoever comes after it, what is no news.
  void read_again(std::string_view text);
  void found(const Marker& marker);
  /// Appends text that contains no marker.
  void put(std::string_view text);
  /// Called at the end of a block: whitespace until the next text belongs to no part.
  void start_over(PartKind text_kind);
  void open_calls(const tool_call::BlockStart& block_start);
  void reject_calls();
  /// Begins a call of what the model wrote where one was forced, which is none; false: it has no name. Gives the text
  /// after its name.
  bool begin_expected(std::string& rest);

  std::vector<Marker> markers_;
  MarkerMatcher matcher_;
  const tool_call::ToolStyle* tools_;
  const tool_call::BlockStart* bare_;
  std::string_view syntax_mark_;
  PartKind text_kind_ = PartKind::kContent;  // kind of the current text
  bool at_start_ = true;                     // whether only whitespace has come since the beginning, or since a block
  bool after_block_ = false;                 // whether only whitespace has come since a block
  bool wraps_answers_;                       // whether every answer after thinking is wrapped in markers
  bool answer_is_wrapped_ = false;
  std::string space_;  // whitespace held back
  std::string text_;   // scratch

  std::unique_ptr<tool_call::ToolCallParser> reader_;
  bool calls_begun_ = false;  // in the block that reader_ reads
  bool progress_ = false;     // the last byte made parts of a call
  std::string raw_;           // what reader_ has read since it last made parts
  size_t forced_bytes_ = 0;   // of raw_, if a call was forced that has not begun
};

}  // namespace cairn::chat
