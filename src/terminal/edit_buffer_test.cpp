#include "terminal/edit_buffer.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace cairn::terminal {
namespace {

/// A buffer with its cursor where the bar is.
EditBuffer buffer_of(std::string_view shown) {
  EditBuffer buffer;
  const size_t cursor = shown.find('|');
  buffer.set(std::string(shown.substr(cursor + 1)));
  while (buffer.cursor() > 0) buffer.left();
  buffer.insert(shown.substr(0, cursor));
  return buffer;
}

std::string shown(const EditBuffer& buffer) { return std::string(buffer.text()).insert(buffer.cursor(), "|"); }

TEST(EditBuffer, MovesAndErasesByCharactersAsAReaderCountsThem) {
  EditBuffer buffer = buffer_of("a日e\u0301👩‍👩‍👧x|");
  EXPECT_TRUE(buffer.left());
  EXPECT_TRUE(buffer.left());
  EXPECT_EQ(shown(buffer), "a日e\u0301|👩‍👩‍👧x");
  EXPECT_TRUE(buffer.erase_before());
  EXPECT_EQ(shown(buffer), "a日|👩‍👩‍👧x");
  EXPECT_TRUE(buffer.erase_after());
  EXPECT_EQ(shown(buffer), "a日|x");
  EXPECT_TRUE(buffer.right());
  EXPECT_FALSE(buffer.right());
  EXPECT_FALSE(buffer.erase_after());
}

TEST(EditBuffer, KnowsWordsAndLines) {
  EditBuffer buffer = buffer_of("one two\nthree  four|\nfive");
  buffer.word_left();
  EXPECT_EQ(shown(buffer), "one two\nthree  |four\nfive");
  buffer.word_left();
  EXPECT_EQ(shown(buffer), "one two\n|three  four\nfive");
  buffer.word_right();
  EXPECT_EQ(shown(buffer), "one two\nthree|  four\nfive");
  buffer.line_begin();
  EXPECT_EQ(shown(buffer), "one two\n|three  four\nfive");
  EXPECT_FALSE(buffer.line_begin());
  buffer.line_end();
  EXPECT_EQ(shown(buffer), "one two\nthree  four|\nfive");
  EXPECT_TRUE(buffer.line_up());
  EXPECT_EQ(shown(buffer), "one two|\nthree  four\nfive");
  EXPECT_FALSE(buffer.line_up());
  EXPECT_TRUE(buffer.line_down());
  EXPECT_TRUE(buffer.line_down());
  EXPECT_EQ(shown(buffer), "one two\nthree  four\nfive|");
  EXPECT_FALSE(buffer.line_down());
}

TEST(EditBuffer, GoesUpAndDownByColumnsOfTheTerminal) {
  EditBuffer buffer = buffer_of("日本語\nabcd|");
  EXPECT_TRUE(buffer.line_up());
  EXPECT_EQ(shown(buffer), "日本|語\nabcd");
  buffer = buffer_of("\n\nabc|");
  EXPECT_TRUE(buffer.line_up());
  EXPECT_TRUE(buffer.line_up());
  EXPECT_EQ(shown(buffer), "|\n\nabc");
}

TEST(EditBuffer, CutsAndSwaps) {
  EditBuffer buffer = buffer_of("one two| three\nfour");
  EXPECT_EQ(buffer.cut_word_before(), "two");
  EXPECT_EQ(buffer.cut_word_after(), " three");
  EXPECT_EQ(shown(buffer), "one |\nfour");
  EXPECT_EQ(buffer.cut_to_line_begin(), "one ");
  EXPECT_EQ(buffer.cut_to_line_end(), "\n");
  EXPECT_EQ(buffer.cut_to_line_end(), "four");
  EXPECT_EQ(buffer.cut_to_line_end(), "");
  buffer = buffer_of("ab|");
  EXPECT_TRUE(buffer.transpose());
  EXPECT_EQ(shown(buffer), "ba|");
  buffer = buffer_of("é|日x");
  EXPECT_TRUE(buffer.transpose());
  EXPECT_EQ(shown(buffer), "日é|x");
  EXPECT_FALSE(buffer_of("|a").transpose());
}

}  // namespace
}  // namespace cairn::terminal
