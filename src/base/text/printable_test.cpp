#include "base/text/printable.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(Printable, EscapesControlCharactersAndIllFormedText) {
  EXPECT_EQ(printable("blk.0.weight \xc3\xa9"), "blk.0.weight \xc3\xa9");
  EXPECT_EQ(printable("a\n\t\x1b\x7f"), "a\\n\\t\\x1b\\x7f");
  EXPECT_EQ(printable("\xc2\x9b\xff"), "\\xc2\\x9b\\xff");
  // Right-to-left override, isolate, mark, and the line separator.
  EXPECT_EQ(printable("\u202e|\u2066|\u200f|\u2028"),
            "\\xe2\\x80\\xae|\\xe2\\x81\\xa6|\\xe2\\x80\\x8f|\\xe2\\x80\\xa8");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("ab\xc3\xa9", 3), "ab...");
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(cut_text("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_text("abcdefg", 6), "abc...");
  EXPECT_EQ(cut_text("ab\xc3\xa9xxxx", 6), "ab...");
  EXPECT_EQ(cut_text("abcdef", 2), "...");
}

}  // namespace
}  // namespace cairn
