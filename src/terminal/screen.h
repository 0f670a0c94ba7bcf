/// A text that is being typed, as rows of a terminal, and the bytes that draw it. It knows no terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::terminal {

struct ScreenSize {
  int columns = 80;
  int rows = 24;
};

struct FrameRow {
  std::string text;    ///< without control characters
  bool wraps = false;  ///< the terminal goes on in the next row by itself
};

/// Rows as wide as the terminal, and where the cursor stands.
struct Frame {
  std::vector<FrameRow> rows;
  int cursor_row = 0;
  int cursor_column = 0;
};

/// `cursor` is a place in `text`. The prompt stands before the first line, and blanks of its width before the others.
Frame lay_out(std::string_view prompt, std::string_view text, size_t cursor, int columns);

/// Draws frames, each over the one before. Of one with more rows than the terminal has, those around the cursor.
class Screen {
 public:
  std::string draw(const Frame& frame, const ScreenSize& size);
  /// The same after the terminal has another size, in which it has moved the rows by itself.
  std::string redraw(const Frame& frame, const ScreenSize& size);
  /// Moves the cursor to the row below the frame, which stays on the screen.
  std::string leave();
  /// Erases the screen; the next frame begins at its top.
  std::string clear();

 private:
  int first_ = 0;       // row of the frame that is drawn first
  int rows_ = 1;        // rows that are drawn
  int cursor_row_ = 0;  // of them
};

}  // namespace cairn::terminal
