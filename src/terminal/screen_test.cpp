#include "terminal/screen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/utf8.h"
#include "terminal/text_width.h"

namespace cairn::terminal {
namespace {

/// A terminal that shows what it gets, with a bar where its cursor stands. It wraps as xterm does: with the next
/// character behind a full row.
class ShownTerminal {
 public:
  explicit ShownTerminal(ScreenSize size) : size_(size), rows_(static_cast<size_t>(size.rows)) {}

  void take(std::string_view bytes) {
    for (size_t at = 0; at < bytes.size();) {
      if (bytes[at] == '\x1b') {
        at = take_sequence(bytes, at + 2);
      } else if (bytes[at] == '\r') {
        column_ = 0;
        ++at;
      } else if (bytes[at] == '\n') {
        feed();
        ++at;
      } else {
        const Utf8Char next = utf8_decode(bytes, at);
        put(bytes.substr(at, static_cast<size_t>(next.length)), char_width(next.value));
        at += static_cast<size_t>(next.length);
      }
    }
  }

  /// The rows down to the last one with text or the cursor.
  std::vector<std::string> rows() const {
    std::vector<std::string> shown;
    size_t last = row_;
    for (size_t i = 0; i < rows_.size(); ++i)
      if (!rows_[i].empty()) last = std::max(last, i);
    for (size_t i = 0; i <= last; ++i) {
      std::string text;
      int column = 0;
      for (const Cell& cell : rows_[i]) {
        if (i == row_ && column == column_) text += '|';
        text += cell.text;
        column += cell.width;
      }
      if (i == row_ && column <= column_) text += std::string(static_cast<size_t>(column_ - column), ' ') + '|';
      shown.push_back(text);
    }
    return shown;
  }

 private:
  struct Cell {
    std::string text;
    int width;
  };

  void feed() {
    if (row_ + 1 < rows_.size()) {
      ++row_;
    } else {
      rows_.erase(rows_.begin());
      rows_.emplace_back();
    }
  }

  void put(std::string_view text, int width) {
    if (column_ + width > size_.columns) {
      column_ = 0;
      feed();
    }
    std::vector<Cell>& row = rows_[row_];
    size_t cell = 0;
    int at = 0;
    while (cell < row.size() && at < column_) at += row[cell++].width;
    for (; at < column_; ++at, ++cell) row.push_back({" ", 1});
    row.resize(cell);  // what is drawn over is drawn to the row's end here
    row.push_back({std::string(text), width});
    column_ += width;
  }

  size_t take_sequence(std::string_view bytes, size_t at) {
    int number = 0;
    const auto read = std::from_chars(bytes.data() + at, bytes.data() + bytes.size(), number);
    at = static_cast<size_t>(read.ptr - bytes.data());
    switch (bytes[at]) {
      case 'A':
        row_ -= std::min(row_, static_cast<size_t>(number));
        break;
      case 'B':
        row_ = std::min(row_ + static_cast<size_t>(number), rows_.size() - 1);
        break;
      case 'C':
        column_ = std::min(column_ + number, size_.columns - 1);
        break;
      case 'J':
        erase(number == 2 ? 0 : row_);
        break;
      case 'H':
        row_ = 0;
        column_ = 0;
        break;
      default:
        ADD_FAILURE() << "unknown sequence ending with " << bytes[at];
    }
    return at + 1;
  }

  void erase(size_t from) {
    EXPECT_EQ(column_, 0);
    for (size_t i = from; i < rows_.size(); ++i) rows_[i].clear();
  }

  const ScreenSize size_;
  std::vector<std::vector<Cell>> rows_;
  size_t row_ = 0;
  int column_ = 0;
};

/// Draws each text over the one before; the bar in it is its cursor.
std::vector<std::string> drawn(ScreenSize size, const std::vector<std::string>& texts) {
  ShownTerminal terminal(size);
  terminal.take("before\r\n");
  Screen screen;
  for (const std::string& text : texts) {
    const size_t cursor = text.find('|');
    const std::string typed = text.substr(0, cursor) + text.substr(cursor + 1);
    terminal.take(screen.draw(lay_out("> ", typed, cursor, size.columns), size));
  }
  return terminal.rows();
}

using Rows = std::vector<std::string>;

TEST(Screen, ShowsTextWithItsCursor) {
  EXPECT_EQ(drawn({20, 8}, {"|"}), (Rows{"before", "> |"}));
  EXPECT_EQ(drawn({20, 8}, {"hello|", "hel|lo", "hel|"}), (Rows{"before", "> hel|"}));
  EXPECT_EQ(drawn({20, 8}, {"日本|語", "日|本語x"}), (Rows{"before", "> 日|本語x"}));
}

TEST(Screen, WrapsAtTheEdge) {
  EXPECT_EQ(drawn({10, 8}, {"12345678|"}), (Rows{"before", "> 12345678", "|"}));
  EXPECT_EQ(drawn({10, 8}, {"12345678|9"}), (Rows{"before", "> 12345678", "|9"}));
  EXPECT_EQ(drawn({10, 8}, {"1234567|8", "12345678|", "123456789|"}), (Rows{"before", "> 12345678", "9|"}));
  EXPECT_EQ(drawn({10, 8}, {"1234567日|", "1234567日本|"}), (Rows{"before", "> 1234567", "日本|"}));
  EXPECT_EQ(drawn({10, 8}, {"12345678901234567890|", "1234|5"}), (Rows{"before", "> 1234|5"}));
  EXPECT_EQ(drawn({10, 8}, {"12345678901|", "12345|678901"}), (Rows{"before", "> 12345|678", "901"}));
}

TEST(Screen, ShowsSeveralLines) {
  EXPECT_EQ(drawn({20, 8}, {"one\ntwo|\nthree"}), (Rows{"before", "> one", "  two|", "  three"}));
  EXPECT_EQ(drawn({20, 8}, {"one\ntwo\nthree|", "o|ne\n"}), (Rows{"before", "> o|ne", "  "}));
  EXPECT_EQ(drawn({10, 8}, {"12345678|\nx"}), (Rows{"before", "> 1234567|8", "  x"}));
}

TEST(Screen, ShowsTheRowsAroundTheCursorOfALongText) {
  std::string text = "0";
  for (int i = 1; i < 30; ++i) text += "\n" + std::to_string(i);
  EXPECT_EQ(drawn({20, 4}, {text + "|"}), (Rows{"  26", "  27", "  28", "  29|"}));
  EXPECT_EQ(drawn({20, 4}, {text + "|", "|" + text}), (Rows{"> |0", "  1", "  2", "  3"}));
  EXPECT_EQ(drawn({20, 4}, {text + "|", "|" + text, "0\n|" + text.substr(2)}), (Rows{"> 0", "  |1", "  2", "  3"}));
}

TEST(Screen, ControlCharactersAreNamedAndTabsAreBlanks) {
  EXPECT_EQ(drawn({30, 4}, {"a\x1b[2Jb\tc\u009b|"}), (Rows{"before", "> a^[[2Jb    c\\x9b|"}));
}

TEST(Screen, GoesOnBelowAfterItIsLeftAndAtTheTopAfterItIsCleared) {
  const ScreenSize size{10, 6};
  ShownTerminal terminal(size);
  Screen screen;
  terminal.take(screen.draw(lay_out("> ", "one\ntwo\nthree", 1, 10), size));
  terminal.take(screen.leave());
  terminal.take(screen.draw(lay_out("> ", "x", 1, 10), size));
  EXPECT_EQ(terminal.rows(), (Rows{"> one", "  two", "  three", "> x|"}));
  terminal.take(screen.clear());
  terminal.take(screen.draw(lay_out("> ", "x", 1, 10), size));
  EXPECT_EQ(terminal.rows(), (Rows{"> x|"}));
}

TEST(Screen, DrawsAnewAfterTheTerminalHasWrappedItsRows) {
  Screen screen;
  const std::string text = "123456789012345";
  screen.draw(lay_out("> ", text, text.size(), 40), {40, 8});
  // A narrower terminal has made two rows of one; the cursor is in the second.
  const ScreenSize narrow{10, 8};
  ShownTerminal terminal(narrow);
  terminal.take("before\r\n> " + text);
  terminal.take(screen.redraw(lay_out("> ", text, text.size(), 10), narrow));
  EXPECT_EQ(terminal.rows(), (Rows{"before", "> 12345678", "9012345|"}));
}

}  // namespace
}  // namespace cairn::terminal
