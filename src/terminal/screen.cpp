#include "terminal/screen.h"

#include <fmt/format.h>

#include <algorithm>

#include "terminal/text_width.h"

namespace cairn::terminal {
namespace {

constexpr int kColumnsMin = 8;  // on a narrower terminal rows are wrapped as if it had so many
constexpr std::string_view kTab = "    ";

/// Makes rows, one cluster after the other.
class Layout {
 public:
  explicit Layout(int columns) : columns_(std::max(columns, kColumnsMin)) { frame_.rows.emplace_back(); }

  /// Adds text that has no control characters and stands in one row if it fits there.
  void add(std::string_view cluster) {
    const int width = text_width(cluster);
    if (column_ + width > columns_) wrap();
    row().text += cluster;
    column_ += width;
  }
  void add_each(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const size_t next = next_cluster(text, at);
      add(text.substr(at, next - at));
      at = next;
    }
  }
  void end_line() {
    frame_.rows.emplace_back();
    column_ = 0;
  }
  /// The cursor stands before what comes next: a character, a line's end or nothing.
  void place_cursor(bool before_line_end) {
    if (column_ >= columns_ && !before_line_end) wrap();
    frame_.cursor_row = static_cast<int>(frame_.rows.size()) - 1;
    frame_.cursor_column = std::min(column_, columns_ - 1);
  }
  Frame take() { return std::move(frame_); }

 private:
  FrameRow& row() { return frame_.rows.back(); }
  void wrap() {
    row().wraps = true;
    end_line();
  }

  const int columns_;
  int column_ = 0;
  Frame frame_;
};

std::string up(int rows) { return rows > 0 ? fmt::format("\x1b[{}A", rows) : std::string(); }
std::string down(int rows) { return rows > 0 ? fmt::format("\x1b[{}B", rows) : std::string(); }
std::string right(int columns) { return columns > 0 ? fmt::format("\x1b[{}C", columns) : std::string(); }

}  // namespace

Frame lay_out(std::string_view prompt, std::string_view text, size_t cursor, int columns) {
  Layout layout(columns);
  layout.add_each(prompt);
  const std::string indent(static_cast<size_t>(text_width(prompt)), ' ');
  for (size_t at = 0; at < text.size();) {
    const bool line_end = text[at] == '\n';
    if (at == cursor) layout.place_cursor(line_end);
    const size_t next = next_cluster(text, at);
    if (line_end) {
      layout.end_line();
      layout.add_each(indent);
    } else if (text[at] == '\t') {
      layout.add_each(kTab);
    } else {
      const std::string shown = harmless(text.substr(at, next - at));
      shown.size() == next - at ? layout.add(shown) : layout.add_each(shown);
    }
    at = next;
  }
  if (cursor >= text.size()) layout.place_cursor(false);
  return layout.take();
}

std::string Screen::draw(const Frame& frame, const ScreenSize& size) {
  std::string out = "\r" + up(cursor_row_) + "\x1b[J";
  const int all = static_cast<int>(frame.rows.size());
  rows_ = std::min(all, std::max(size.rows, 1));
  first_ = std::clamp(first_, std::max(0, frame.cursor_row - rows_ + 1), frame.cursor_row);
  first_ = std::min(first_, all - rows_);
  for (int i = 0; i < rows_; ++i) {
    const FrameRow& row = frame.rows[static_cast<size_t>(first_ + i)];
    out += row.text;
    if (i + 1 == rows_) break;
    // The terminal wraps once there is a character for the next row.
    const bool goes_on = row.wraps && !frame.rows[static_cast<size_t>(first_ + i + 1)].text.empty();
    if (!goes_on) out += "\r\n";
  }
  cursor_row_ = frame.cursor_row - first_;
  out += "\r" + up(rows_ - 1 - cursor_row_) + right(frame.cursor_column);
  return out;
}

std::string Screen::redraw(const Frame& frame, const ScreenSize& size) {
  first_ = 0;
  cursor_row_ = std::min(frame.cursor_row, std::max(size.rows, 1) - 1);
  return draw(frame, size);
}

std::string Screen::leave() {
  std::string out = down(rows_ - 1 - cursor_row_) + "\r\n";
  *this = Screen();
  return out;
}

std::string Screen::clear() {
  *this = Screen();
  return "\x1b[H\x1b[2J";
}

}  // namespace cairn::terminal
