#include "base/text/utf8.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(Utf8, ValidatesPerTheStandardsTable) {
  EXPECT_TRUE(utf8_valid("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
  EXPECT_EQ(utf8_valid_prefix("ab\xC0\x80"), 2u);        // overlong
  EXPECT_EQ(utf8_valid_prefix("ab\xED\xA0\x80"), 2u);    // surrogate
  EXPECT_EQ(utf8_valid_prefix("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(utf8_valid_prefix("ok\xE2\x82"), 2u);        // cut short
}

TEST(Utf8, EveryCharacterSurvivesARoundTrip) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    utf8_append(text, c);
    const Utf8Char decoded = utf8_decode(text, 0);
    ASSERT_TRUE(decoded.well_formed);
    ASSERT_EQ(decoded.value, c);
    ASSERT_EQ(decoded.length, static_cast<int>(text.size()));
    for (size_t cut = 1; cut < text.size(); ++cut) ASSERT_EQ(utf8_incomplete_suffix("x" + text.substr(0, cut)), cut);
    ASSERT_EQ(utf8_incomplete_suffix(text), 0u);
  }
}

TEST(Utf8, IncompleteSuffixIsOnlyWhatMoreBytesCouldComplete) {
  EXPECT_EQ(utf8_incomplete_suffix("\xED\xA0"), 0u);  // can only become a surrogate
  EXPECT_EQ(utf8_incomplete_suffix("\x80\x80"), 0u);
  EXPECT_EQ(utf8_incomplete_suffix(""), 0u);
}

TEST(Utf8, ReplacesMaximalInvalidParts) {
  EXPECT_EQ(utf8_replace_invalid("a\xE2\x82z\xFF"), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
}

}  // namespace
}  // namespace cairn
