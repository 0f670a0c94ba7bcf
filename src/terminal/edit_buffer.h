/// A text that is being typed, with its cursor. It knows no terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn::terminal {

/// Well-formed UTF-8, of one or several lines. The cursor stands between grapheme clusters.
class EditBuffer {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }
  bool empty() const { return text_.empty(); }

  void set(std::string text);
  void insert(std::string_view text);
  /// Puts `text` in the place of what is between `begin` and the cursor.
  void replace_before(size_t begin, std::string_view text);

  /// Each returns whether anything has changed.
  bool left();
  bool right();
  bool word_left();
  bool word_right();
  bool line_begin();
  bool line_end();
  /// To the same column of the line above or below; false where there is none.
  bool line_up();
  bool line_down();
  bool erase_before();
  bool erase_after();
  /// Swaps the characters before and behind the cursor.
  bool transpose();

  /// Each cuts text out and returns it.
  std::string cut_word_before();
  std::string cut_word_after();
  std::string cut_to_line_begin();
  std::string cut_to_line_end();

 private:
  size_t begin_of_line() const;
  size_t end_of_line() const;
  size_t begin_of_word() const;
  size_t end_of_word() const;
  std::string cut(size_t begin, size_t end);
  bool move_to(size_t at);
  /// The place in the line that begins at `line` and is so many columns to the right.
  size_t at_column(size_t line, int column) const;

  std::string text_;
  size_t cursor_ = 0;
};

}  // namespace cairn::terminal
