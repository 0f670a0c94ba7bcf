#include "grammar/member_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/matcher.h"

namespace cairn::grammar {
namespace {

constexpr size_t kElements = 5;
constexpr size_t kLengthMax = 7;

struct DrawnList {
  std::vector<MemberList::Element> elements;
  uint32_t ordered = 0;
  uint32_t least = 0;
  std::optional<uint32_t> most{};
};

DrawnList draw_list(uint32_t seed) {
  std::mt19937 random(seed);
  DrawnList list;
  list.ordered = static_cast<uint32_t>(random() % (kElements + 1));
  for (size_t i = 0; i < kElements; ++i) {
    const bool repeats = i >= list.ordered && random() % 4 == 0;
    list.elements.push_back({.required = !repeats && random() % 3 == 0, .repeats = repeats});
  }
  list.least = random() % 2 == 0 ? 0 : static_cast<uint32_t>(random() % 5);
  if (random() % 2 == 0) list.most = static_cast<uint32_t>(1 + random() % 5);
  return list;
}

// Whether a text fits the list by its definition; the text's letters are elements.
bool fits(const DrawnList& list, std::string_view text) {
  std::set<size_t> seen;
  size_t last_ordered = 0;
  bool later = false;
  for (const char letter : text) {
    const auto element = static_cast<size_t>(letter - 'a');
    if (element < list.ordered) {
      if (later || (!seen.empty() && element < last_ordered)) return false;
      last_ordered = element;
    } else {
      later = true;
    }
    if (!seen.insert(element).second && !list.elements[element].repeats) return false;
  }
  for (size_t i = 0; i < kElements; ++i)
    if (list.elements[i].required && !seen.contains(i)) return false;
  return !text.empty() && seen.size() >= list.least && text.size() <= list.most.value_or(kLengthMax);
}

std::vector<std::string> all_texts() {
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == kLengthMax) break;
    for (size_t element = 0; element < kElements; ++element)
      texts.push_back(texts[i] + static_cast<char>('a' + element));
  }
  return texts;
}

// Texts of the list are taken, others are not, and whatever is taken can be completed.
TEST(MemberList, TakesExactlyWhatFits) {
  const std::vector<std::string> texts = all_texts();
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const DrawnList list = draw_list(seed);
    GrammarBuilder builder;
    std::vector<SymbolId> symbols;
    for (size_t i = 0; i < kElements; ++i)
      symbols.push_back(builder.literal(std::string(1, static_cast<char>('a' + i))));
    const SymbolId separator = seed % 2 == 0 ? builder.terminal(kEmptyText) : builder.literal(",");
    const auto grammar =
        builder.finish(builder.members(symbols, list.elements, list.ordered, separator, list.least, list.most));
    std::set<std::string> beginnings;
    for (const std::string& text : texts) {
      if (!fits(list, text)) continue;
      for (size_t length = 0; length <= text.size(); ++length) beginnings.insert(text.substr(0, length));
    }
    ASSERT_EQ(grammar.has_value(), !beginnings.empty()) << seed;
    if (!grammar.has_value()) continue;
    Matcher matcher(*grammar);
    for (const std::string& text : texts) {
      if (text.size() > kLengthMax - 2) break;
      std::string written;
      for (const char letter : text) written += (written.empty() || seed % 2 == 0 ? "" : ",") + std::string(1, letter);
      matcher.rewind(0);
      const bool taken = matcher.push(written) == written.size();
      ASSERT_EQ(taken && matcher.may_end(), fits(list, text)) << seed << " " << text;
      ASSERT_EQ(taken, beginnings.contains(text)) << seed << " " << text;
    }
  }
}

std::shared_ptr<const Grammar> distinct_texts(RegexId (*text)(RegexPool&), uint32_t min, std::optional<uint32_t> max) {
  GrammarBuilder builder;
  const RegexId regex = text(builder.regexes());
  return builder.finish(builder.distinct(regex, builder.literal(","), min, max)).value();
}

TEST(DistinctTexts, NeverRepeat) {
  const auto grammar = distinct_texts(
      [](RegexPool& regexes) { return regexes.repeat(regexes.bytes(ByteSet::of("ab")), 1, std::nullopt); }, 2, 4);
  Matcher matcher(grammar);
  for (const char* text : {"a,b", "b,a,ab", "aa,a,aaa,b"}) {
    matcher.rewind(0);
    EXPECT_TRUE(matcher.push(text) == std::string_view(text).size() && matcher.may_end()) << text;
  }
  for (const char* text : {"a", "a,a", "a,b,a", "ab,b,ab", "a,b,aa,bb,ab"}) {
    matcher.rewind(0);
    EXPECT_FALSE(matcher.push(text) == std::string_view(text).size() && matcher.may_end()) << text;
  }
}

TEST(DistinctTexts, EndWhereNoneIsLeft) {
  const auto grammar =
      distinct_texts([](RegexPool& regexes) { return regexes.bytes(ByteSet::of("abc")); }, 1, std::nullopt);
  Matcher matcher(grammar);
  EXPECT_EQ(matcher.push("c,a,"), 4U);
  EXPECT_EQ(matcher.forced(), 'b');
  EXPECT_TRUE(matcher.push('b'));
  EXPECT_TRUE(matcher.may_end());
  EXPECT_TRUE(matcher.next_bytes().empty());
}

}  // namespace
}  // namespace cairn::grammar
