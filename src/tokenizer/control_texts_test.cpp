#include "tokenizer/control_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/reader.h"

namespace cairn {
namespace {

TEST(ControlTexts, AreGuardedAndNothingElseIs) {
  auto file = gguf::Reader::open(CAIRN_TEST_DATA "/models/llama.gguf");
  ASSERT_TRUE(file.has_value()) << file.error().text();
  auto tokenizer = Tokenizer::load(file->metadata());
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text();
  const ControlTexts controls(**tokenizer);
  const std::string guard(ControlTexts::guard());
  size_t found = 0;
  for (int32_t i = 0; i < (*tokenizer)->size(); ++i) {
    const TokenId id{i};
    const std::string text((*tokenizer)->piece(id, true));
    const bool control = (*tokenizer)->is_special(id) && (*tokenizer)->piece(id, false).empty() && text.size() > 1;
    found += control ? 1 : 0;
    const std::string guarded = controls.guarded("a" + text + "b" + text);
    if (control) {
      EXPECT_EQ(guarded,
                "a" + text.substr(0, 1) + guard + text.substr(1) + "b" + text.substr(0, 1) + guard + text.substr(1));
    } else {
      EXPECT_EQ(guarded, "a" + text + "b" + text);
    }
  }
  EXPECT_GT(found, 0u);
  EXPECT_EQ(controls.guarded(""), "");
  EXPECT_EQ(controls.guarded("< s > <"), "< s > <");
}

}  // namespace
}  // namespace cairn
