/// Light Markdown on a terminal: headings, bold text and code in other shades, while the text still comes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::terminal {

/// Text in pieces -> the same text with colours. The marks of bold text and of code within a line are left out where
/// both are there; every other byte stays, so that nothing of an answer is missing. A mark without its other half is
/// shown as it is, once the line ends or kHeldBytesMax bytes have come behind it. The text is well-formed and
/// harmless().
class MarkdownStyle {
 public:
  static constexpr size_t kHeldBytesMax = 160;

  std::string push(std::string_view text);
  /// The rest, and the terminal's usual colours again.
  std::string finish();

 private:
  enum class Line : uint8_t { kBegin, kText, kHeading, kFence, kCode };

  /// Takes what is certain from the front of held_; returns whether there was something.
  bool take(std::string& out, bool at_end);
  bool take_line_begin(std::string& out, bool at_end);
  bool take_text(std::string& out, bool at_end);
  bool take_span(std::string& out, bool at_end);
  void take_bytes(std::string& out, size_t bytes);

  std::string held_;
  Line line_ = Line::kBegin;
  std::string fence_;   // what opened the block of code; empty: none
  char before_ = '\n';  // the last byte that was taken
};

}  // namespace cairn::terminal
