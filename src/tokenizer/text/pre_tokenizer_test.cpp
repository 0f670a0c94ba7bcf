#include "tokenizer/text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace cairn::tokenizer {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> out;
  const std::string all = pre_tokenizer_names();
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(", ", begin), all.size());
    out.push_back(all.substr(begin, end - begin));
    begin = end + 2;
  }
  return out;
}

std::vector<std::string> words(std::string_view name, std::string_view text) {
  const PreTokenizerSpec* spec = find_pre_tokenizer(name);
  if (spec == nullptr) return {"no such name"};
  const auto compiled = PreTokenizer::compile(spec->rules);
  if (!compiled) return {compiled.error().text()};
  std::vector<uint32_t> ends;
  const auto split = compiled->split(text, ends);
  if (!split) return {split.error().text()};
  std::vector<std::string> out;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    out.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

using Words = std::vector<std::string>;

TEST(PreTokenizer, CutsTextsIntoTheWordsOfEachModel) {
  EXPECT_EQ(words("gpt-2", "I'll  go 2024!\n\n x"), (Words{"I", "'ll", " ", " go", " 2024", "!", "\n\n", " x"}));
  EXPECT_EQ(words("llama3", "I'LL go 20245\n\n x"), (Words{"I", "'LL", " go", " ", "202", "45", "\n\n", " x"}));
  EXPECT_EQ(words("qwen2", "a12 b"), (Words{"a", "1", "2", " b"}));
  EXPECT_EQ(words("deepseek-v3", "x1234 日本語?ab~"), (Words{"x", "123", "4", " ", "日本語", "?ab", "~"}));
  EXPECT_EQ(words("deepseek-llm", "ab  \ncd  "), (Words{"ab", "  ", "\n", "cd", "  "}));
  EXPECT_EQ(words("gpt-4o", "HelloWORLD don't ÉCOLEs"), (Words{"Hello", "WORLD", " don't", " ÉCOLEs"}));
  EXPECT_EQ(words("tekken", "ab12 don't"), (Words{"ab", "1", "2", " don", "'t"}));
  EXPECT_EQ(words("kimi-k2", "日本go語 1234"), (Words{"日本", "go", "語", " ", "123", "4"}));
  EXPECT_EQ(words("superbpe", "a1234567 12"), (Words{"a", "1", "234", "567", " ", "12"}));
  EXPECT_EQ(words("afmoe", "12345"), (Words{"12", "345"}));
  EXPECT_EQ(words("tiny_aya", "1234 1234a"), (Words{"1", "234", " ", "123", "4", "a"}));
  EXPECT_EQ(words("bloom", "Hi, you."), (Words{"Hi", ",", " you", "."}));
  EXPECT_EQ(words("exaone-moe", "a b c 1"), (Words{"a b c", " ", "1"}));
  EXPECT_EQ(words("gemma4",
                  "a\xE2\x96\x81"
                  "b\n\nc"),
            (Words{"a\xE2\x96\x81"
                   "b",
                   "\n\n", "c"}));
  EXPECT_EQ(words("falcon", "a`b 12345"), (Words{"a", "`", "b", " ", "123", "45"}));
}

TEST(PreTokenizer, WhiteSpaceIsUnicodesPropertyOnly) {
  EXPECT_EQ(words("gpt-2", "a\u0085\u3000 b"), (Words{"a", "\u0085\u3000", " b"}));
  EXPECT_EQ(words("gpt-2", "a\u180E b"), (Words{"a", "\u180E", " b"})) << "U+180E is not white space";
  EXPECT_EQ(words("gpt-2", "'\u017F"), (Words{"'", "\u017F"})) << "a long s does not make a contraction";
}

TEST(PreTokenizer, UnknownNameIsNotFound) {
  EXPECT_EQ(find_pre_tokenizer("gpt-2 "), nullptr);
  EXPECT_EQ(find_pre_tokenizer(""), nullptr);
  EXPECT_GT(names().size(), 70u);
}

// A quadratic pattern would need minutes for these.
TEST(PreTokenizer, HostileTextsTakeLinearTime) {
  constexpr size_t kBytes = 1 << 17;
  std::vector<std::string> texts;
  for (const std::string unit : {"a",         "A",
                                 " ",         "\n",
                                 "\t",        "1",
                                 "'",         ".",
                                 "~",         "\xE3\x80\x80",
                                 "\xCC\x81",  "a ",
                                 " .",        "1 ",
                                 "\r\n",      "Aa",
                                 "a\xCC\x81", "\xE6\x97\xA5",
                                 "'s",        " \xE6\x97\xA5",
                                 "(",         "\xED\xA0\x80"}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    texts.push_back(text);
    texts.push_back(text + "x");  // and a text with another end
  }
  std::vector<const void*> done;
  for (const std::string& name : names()) {
    const PreTokenizerSpec* spec = find_pre_tokenizer(name);
    if (std::find(done.begin(), done.end(), spec->rules.data()) != done.end()) continue;
    done.push_back(spec->rules.data());
    const auto compiled = PreTokenizer::compile(spec->rules);
    ASSERT_TRUE(compiled.has_value()) << name << compiled.error().text();
    for (const std::string& text : texts) {
      const auto start = std::chrono::steady_clock::now();
      std::vector<uint32_t> ends;
      const auto split = compiled->split(text, ends);
      ASSERT_TRUE(split.has_value()) << name << ' ' << text.substr(0, 4) << ": " << split.error().text();
      ASSERT_TRUE(std::is_sorted(ends.begin(), ends.end()));
      EXPECT_EQ(ends.back(), text.size());
      EXPECT_EQ(std::adjacent_find(ends.begin(), ends.end()), ends.end()) << "an empty word";
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3)) << name << ' ' << text.substr(0, 4);
    }
  }
}

}  // namespace
}  // namespace cairn::tokenizer
