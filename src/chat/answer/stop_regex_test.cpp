#include "chat/answer/stop_regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <regex>
#include <utility>
#include <vector>

namespace cairn::chat {
namespace {

/// The text up to its end, "text|expression", or the text as it is; pushed in parts of so many bytes.
std::string ended(const std::vector<std::string>& patterns, std::string_view text, size_t part) {
  const auto regexes = StopRegexes::read(patterns);
  EXPECT_TRUE(regexes.has_value()) << regexes.error().text();
  const auto end = (*regexes)->make_end();
  for (size_t at = 0; at < text.size(); at += part) {
    const auto found = end->push(text.substr(at, part));
    EXPECT_TRUE(found.has_value()) << found.error().text();
    if (found && *found) return std::string(text.substr(0, at + (*found)->bytes)) + "|" + (*found)->what;
  }
  return std::string(text);
}

TEST(StopRegex, TheAnswerEndsWithTheFirstMatchHoweverItComes) {
  const std::pair<std::vector<std::string>, std::pair<const char*, const char*>> cases[] = {
      {{"[0-9]{3}"}, {"a12 345678", "a12 345|[0-9]{3}"}},
      {{"\\n\\n"}, {"a\nb\n\n\nc", "a\nb\n\n|\\n\\n"}},
      {{"^b"}, {"ab\nb", "ab\nb"}},
      {{"(?:yes|no)\\."}, {"maybe. no. yes.", "maybe. no.|(?:yes|no)\\."}},
      {{"c", "ab"}, {"xabc", "xab|ab"}},
      {{"bc", "abc"}, {"xabc", "xabc|bc"}},
      {{"\xC3\xA9."}, {"caf\xC3\xA9\xC3\xA9", "caf\xC3\xA9\xC3\xA9|\xC3\xA9."}},
      {{"a.c"}, {"a\nc abc", "a\nc abc|a.c"}},
      {{"end$"}, {"no end here", "no end|end$"}},
  };
  for (const auto& [patterns, texts] : cases)
    for (const size_t part : {1, 2, 3, 100}) EXPECT_EQ(ended(patterns, texts.first, part), texts.second) << part;
}

// SGLang searches what has come of the text at each token: an end is the first beginning in which a search finds it.
TEST(StopRegex, RandomTextsEndWhereASearchInTheirBeginningsFirstFinds) {
  std::mt19937 random(5);
  for (const char* pattern : {"ab|ba+b", "a{2,3}b", "(ab)+c", "[^a]{4}", "a.b.c", "c(a|b)*c"}) {
    const std::regex expected(pattern);
    for (int round = 0; round < 200; ++round) {
      std::string text;
      for (int i = 0; i < 24; ++i) text += "abc "[random() % 4];
      std::string first = text;
      for (size_t bytes = 1; bytes <= text.size() && first == text; ++bytes) {
        const std::string beginning = text.substr(0, bytes);
        if (std::regex_search(beginning, expected)) first = beginning + "|" + pattern;
      }
      EXPECT_EQ(ended({pattern}, text, 1 + random() % 5), first) << pattern;
    }
  }
}

TEST(StopRegex, WhatCannotBeHonouredIsRefusedByName) {
  const auto refused = [](const char* pattern) {
    const std::string patterns[] = {pattern};
    const auto regexes = StopRegexes::read(patterns);
    EXPECT_FALSE(regexes.has_value()) << pattern;
    if (regexes) return std::string();
    EXPECT_EQ(regexes.error().at, "stop_regex");
    return regexes.error().message;
  };
  EXPECT_THAT(refused("(a"), testing::HasSubstr("stop_regex (a: "));
  EXPECT_THAT(refused("(a)\\1"), testing::HasSubstr("stop_regex (a)"));
  EXPECT_THAT(refused("a*"), testing::HasSubstr("matches the empty text"));
  EXPECT_THAT(refused("$"), testing::HasSubstr("matches the empty text"));
}

// An automaton of a(a|b){n} has 2^n states: a text is read in time that is linear in it, or its answer ends with an
// error that names the field.
TEST(StopRegex, EveryTextIsReadInBoundedTimeAndMemoryOrRefused) {
  std::mt19937 random(5);
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += "ab"[random() % 2];
  for (const char* pattern :
       {"a(a|b){30}c", "(a|b)*a(a|b){300}c", "(?:a*b*a*){20}c", "(a+)+c", "c{1000}", "([ab]{1,50}a){1,50}c"}) {
    const std::string patterns[] = {pattern};
    const auto regexes = StopRegexes::read(patterns);
    ASSERT_TRUE(regexes.has_value()) << regexes.error().text();
    const auto end = (*regexes)->make_end();
    const auto begin = std::chrono::steady_clock::now();
    std::string told = "read";
    for (size_t at = 0; at < text.size(); at += 4) {
      const auto found = end->push(std::string_view(text).substr(at, 4));
      if (found) {
        EXPECT_FALSE(found->has_value());
        continue;
      }
      told = found.error().message;
      EXPECT_EQ(found.error().at, "stop_regex");
      break;
    }
    const auto time = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(time, std::chrono::minutes(1)) << pattern << ": " << told;
  }
}

}  // namespace
}  // namespace cairn::chat
