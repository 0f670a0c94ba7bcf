#include "terminal/markdown.h"

#include <algorithm>
#include <utility>

namespace cairn::terminal {
namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kNotBold = "\x1b[22m";
constexpr std::string_view kCode = "\x1b[36m";
constexpr std::string_view kNotCode = "\x1b[39m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr size_t kFenceMin = 3;
constexpr size_t kHeadingMax = 6;

size_t run_of(std::string_view text, char byte, size_t at) {
  return std::min(text.find_first_not_of(byte, at), text.size()) - at;
}

bool is_blank_byte(char byte) { return byte == ' ' || byte == '\n' || byte == '\t'; }
/// Whether bold text may begin behind the byte: within a word, two stars are two stars.
bool may_open(char before) { return is_blank_byte(before) || std::string_view("([{\"'-:,.;*_").contains(before); }

}  // namespace

std::string MarkdownStyle::push(std::string_view text) {
  held_ += text;
  std::string out;
  while (!held_.empty() && take(out, false)) continue;
  return out;
}

std::string MarkdownStyle::finish() {
  std::string out;
  while (!held_.empty() && take(out, true)) continue;
  if (line_ == Line::kHeading || line_ == Line::kFence) out += kNotBold;
  if (line_ == Line::kCode) out += kNotCode;
  *this = MarkdownStyle();
  return out;
}

void MarkdownStyle::take_bytes(std::string& out, size_t bytes) {
  out.append(held_, 0, bytes);
  before_ = held_[bytes - 1];
  held_.erase(0, bytes);
}

bool MarkdownStyle::take(std::string& out, bool at_end) {
  if (line_ == Line::kBegin) return take_line_begin(out, at_end);
  if (line_ == Line::kText) return take_text(out, at_end);
  // In headings, fences and code only the end of the line has a meaning.
  const size_t end = held_.find('\n');
  if (end != 0) {
    take_bytes(out, std::min(end, held_.size()));
    return true;
  }
  out += line_ == Line::kCode ? kNotCode : kNotBold;
  take_bytes(out, 1);
  line_ = Line::kBegin;
  return true;
}

bool MarkdownStyle::take_line_begin(std::string& out, bool at_end) {
  const size_t indent = run_of(held_, ' ', 0);
  if (indent == held_.size() && !at_end) return false;
  const char mark = indent < held_.size() ? held_[indent] : '\n';
  const size_t marks = run_of(held_, mark, std::min(indent, held_.size()));
  const bool may_grow = indent + marks == held_.size() && !at_end;
  if (mark == '`' || mark == '~') {
    if (may_grow) return false;
    const bool is_fence = marks >= kFenceMin && (fence_.empty() || (mark == fence_.front() && marks >= fence_.size()));
    if (is_fence) {
      fence_ = fence_.empty() ? std::string(marks, mark) : std::string();
      out += kDim;
      line_ = Line::kFence;
      return true;
    }
  }
  if (!fence_.empty()) {
    out += kCode;
    line_ = Line::kCode;
    return true;
  }
  if (mark == '#' && indent == 0) {
    if (may_grow) return false;
    if (marks <= kHeadingMax && (marks == held_.size() || held_[marks] == ' ')) {
      out += kBold;
      line_ = Line::kHeading;
      return true;
    }
  }
  line_ = Line::kText;
  return true;
}

bool MarkdownStyle::take_text(std::string& out, bool at_end) {
  const size_t end = std::min(held_.find_first_of("*`\n"), held_.size());
  if (end > 0) {
    take_bytes(out, end);
    return true;
  }
  if (held_.front() != '\n') return take_span(out, at_end);
  take_bytes(out, 1);
  line_ = Line::kBegin;
  return true;
}

bool MarkdownStyle::take_span(std::string& out, bool at_end) {
  const char mark = held_.front();
  const size_t marks = run_of(held_, mark, 0);
  const bool open = marks == held_.size() && !at_end;  // more of them may come
  const size_t line_end = held_.find('\n');
  const bool whole_line = line_end != std::string::npos || at_end || held_.size() > kHeldBytesMax;
  if (open && marks <= kHeldBytesMax) return false;
  const bool may_be_bold =
      mark == '*' && marks == 2 && may_open(before_) && !is_blank_byte(held_[std::min(marks, held_.size() - 1)]);
  if (mark == '*' && !may_be_bold) {
    take_bytes(out, marks);
    return true;
  }
  // The other half is as many marks again; of bold text no blank stands before it.
  const std::string_view text = std::string_view(held_).substr(0, line_end);
  for (size_t at = marks; (at = text.find(mark, at)) != std::string_view::npos;) {
    const size_t found = run_of(text, mark, at);
    if (at + found == held_.size() && !at_end) return false;
    if (found == marks && (mark == '`' || !is_blank_byte(text[at - 1]))) {
      out += mark == '`' ? kCode : kBold;
      out += text.substr(marks, at - marks);
      out += mark == '`' ? kNotCode : kNotBold;
      before_ = mark;
      held_.erase(0, at + found);
      return true;
    }
    at += found;
  }
  if (!whole_line) return false;
  take_bytes(out, marks);
  return true;
}

}  // namespace cairn::terminal
