#include "engine/output/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace cairn::engine {
namespace {

struct Outcome {
  std::string text;
  std::string stop;
  bool operator==(const Outcome&) const = default;
};

// The definition over the whole text: the first stop string to be complete wins, of two the longer.
Outcome plain(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string longest;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop) && stop.size() > longest.size()) longest = stop;
    }
    if (!longest.empty()) return {text.substr(0, end - longest.size()), longest};
  }
  return {text, ""};
}

// Bit i of `cuts` cuts after byte i. Checks after each part that no more is held back than could become a stop string.
Outcome in_parts(const std::string& text, const std::vector<std::string>& stops, uint64_t cuts) {
  StopMatcher matcher(stops);
  Outcome outcome;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && !(cuts >> i & 1)) continue;
    const int32_t found = matcher.push(text.substr(begin, i + 1 - begin), outcome.text);
    begin = i + 1;
    if (found >= 0) {
      outcome.stop = stops[static_cast<size_t>(found)];
      return outcome;
    }
    const std::string held = text.substr(outcome.text.size(), begin - outcome.text.size());
    const bool needed = held.empty() || std::any_of(stops.begin(), stops.end(), [&](const std::string& stop) {
                          return stop.starts_with(held) && stop.size() > held.size();
                        });
    EXPECT_TRUE(needed) << "\"" << held << "\" is held back in " << text;
  }
  outcome.text += matcher.take_held();
  return outcome;
}

TEST(StopMatcher, EverySplitOfATextGivesTheSameResult) {
  struct Case {
    std::string text;
    std::vector<std::string> stops;
    Outcome expected;
  };
  const std::vector<Case> cases = {
      {"one STOP two", {"STOP"}, {"one ", "STOP"}},
      {"one STO two", {"STOP"}, {"one STO two", ""}},
      {"STOP", {"STOP"}, {"", "STOP"}},
      {"ends in STO", {"STOP"}, {"ends in STO", ""}},
      {"SSTSTOSTOP!", {"STOP"}, {"SSTSTO", "STOP"}},
      {"aabaabaaab", {"aabaaab"}, {"aab", "aabaaab"}},
      {"aaaaaaa", {"aaa"}, {"", "aaa"}},
      {"xabcdx", {"abcd", "bc"}, {"xa", "bc"}},
      {"xabcx", {"bc", "abc"}, {"x", "abc"}},
      {"xabx", {"abc", "ab"}, {"x", "ab"}},
      {"xabdx", {"abc", "bd"}, {"xa", "bd"}},
      {"\n\nUser:", {"\n\n", "User:"}, {"", "\n\n"}},
      {"caf\xC3\xA9 fin", {"\xC3\xA9"}, {"caf", "\xC3\xA9"}},
      {"no stops", {}, {"no stops", ""}},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(plain(one.text, one.stops), one.expected) << one.text;
    for (uint64_t cuts = 0; cuts < uint64_t{1} << (one.text.size() - 1); ++cuts) {
      ASSERT_EQ(in_parts(one.text, one.stops, cuts), one.expected) << one.text << ", cuts " << cuts;
    }
  }
}

TEST(StopMatcher, RandomTextsOfTwoLettersAgreeWithTheDefinition) {
  std::mt19937 random(3);
  const auto word = [&](size_t length_max) {
    std::string text(1 + random() % length_max, 'a');
    for (char& c : text) c = random() % 2 ? 'a' : 'b';
    return text;
  };
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops) stop = word(6);
    const std::string text = word(14);
    const Outcome expected = plain(text, stops);
    ASSERT_EQ(in_parts(text, stops, random()), expected) << text << ", round " << round << " of seed 3";
  }
}

TEST(StopMatcher, TextWithoutAStopStringIsNotHeldBack) {
  StopMatcher matcher(std::vector<std::string>{"###"});
  std::string out;
  EXPECT_EQ(matcher.push("hello", out), -1);
  EXPECT_EQ(out, "hello");
  EXPECT_EQ(matcher.push(" #", out), -1);
  EXPECT_EQ(out, "hello ");
  EXPECT_EQ(matcher.push("1", out), -1);
  EXPECT_EQ(out, "hello #1");
  EXPECT_EQ(matcher.push("##", out), -1);
  EXPECT_EQ(matcher.take_held(), "##");
  EXPECT_EQ(matcher.take_held(), "");
}

TEST(IndentMatcher, FindsTheFirstLineThatIsIndentedLessHoweverTheTextIsCut) {
  const std::string text = "x = 1;\n    y;\n\t\t\t z;\n  }\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    for (const auto& [least, expected] :
         {std::pair<int32_t, size_t>{0, text.size()}, {2, text.size()}, {3, text.find('}')}}) {
      IndentMatcher matcher(least);
      size_t found = matcher.push(text.substr(0, cut));
      if (found == cut) found += matcher.push(text.substr(cut));
      EXPECT_EQ(found, expected) << least << " " << cut;
      EXPECT_TRUE(matcher.line_ended());
    }
  }
  EXPECT_EQ(IndentMatcher(1).push("a\n\n"), 2U);
  EXPECT_EQ(IndentMatcher(4).push("no line"), 7U);
}

}  // namespace
}  // namespace cairn::engine
