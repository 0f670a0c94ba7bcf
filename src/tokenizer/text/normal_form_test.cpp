#include "tokenizer/text/normal_form.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::tokenizer {
namespace {

std::string composed(std::string_view text) {
  std::string scratch;
  return std::string(nfc(text, scratch));
}

TEST(NormalFormC, ComposesLettersAndTheirMarks) {
  EXPECT_EQ(composed("e\u0301 A\u030a"), "\u00e9 \u00c5");
  EXPECT_EQ(composed("x d\u0307\u0323"), "x \u1e0d\u0307") << "marks are put in order";
  EXPECT_EQ(composed("\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(composed("\u212b\u0958"), "\u00c5\u0915\u093c");
  EXPECT_EQ(composed("\ufb01\u00b2"), "\ufb01\u00b2") << "compatibility characters stay";
}

TEST(NormalFormC, ReturnsTextInNormalFormWithoutACopy) {
  for (const std::string text : {"", "plain", "caf\u00e9", "\u4eba\u4eba a \u4eba"}) EXPECT_EQ(composed(text), text);
  std::string scratch;
  const std::string_view same = "na\u00efve";
  EXPECT_EQ(nfc(same, scratch).data(), same.data());
  EXPECT_EQ(composed("\xED\xA0\x80 e\u0301"), "\xED\xA0\x80 \u00e9") << "what is no character does not stop it";
}

}  // namespace
}  // namespace cairn::tokenizer
