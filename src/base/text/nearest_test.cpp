#include "base/text/nearest.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {
namespace {

using Names = std::vector<std::string_view>;

constexpr std::array<std::string_view, 8> kCommands = {"serve", "config", "chat",  "run",
                                                       "rm",    "list",   "cache", "perplexity"};

TEST(Nearest, FindsNamesThatDifferByFewLetters) {
  EXPECT_EQ(nearest("srve", kCommands, 3), Names{"serve"});
  EXPECT_EQ(nearest("sevre", kCommands, 3), Names{"serve"}) << "neighbours that were swapped are one edit";
  EXPECT_EQ(nearest("perplxeitys", kCommands, 3), Names{"perplexity"});
  EXPECT_EQ(nearest("caht", kCommands, 3), (Names{"chat", "cache"})) << "the most likely first";
  EXPECT_EQ(nearest("rn", kCommands, 3), (Names{"run", "rm"})) << "equally near: in the order of the list";
}

TEST(Nearest, ABeginningComesBeforeALetterThatDiffers) {
  constexpr std::array<std::string_view, 3> kNames = {"set", "stats", "temp-stats"};
  EXPECT_EQ(nearest("st", kNames, 3), (Names{"stats", "set"}));
  EXPECT_EQ(nearest("stats", kNames, 3), (Names{"stats", "temp-stats"})) << "then a part";
}

TEST(Nearest, APartOfANameIsNear) {
  constexpr std::array<std::string_view, 3> kNames = {"gpu-layers", "max-tokens", "no-web"};
  EXPECT_EQ(nearest("layers", kNames, 3), Names{"gpu-layers"});
  EXPECT_EQ(nearest("web", kNames, 3), Names{"no-web"});
  EXPECT_EQ(nearest("we", kNames, 3), Names{}) << "two letters are too few for a part";
}

TEST(Nearest, WhatIsUnlikeIsNotNamed) {
  EXPECT_EQ(nearest("quantum", kCommands, 3), Names{});
  EXPECT_EQ(nearest("foo", kCommands, 3), Names{});
  EXPECT_EQ(nearest("", kCommands, 3), Names{});
  EXPECT_EQ(nearest("serve", {}, 3), Names{});
  EXPECT_EQ(nearest("srve", kCommands, 0), Names{});
}

TEST(Nearest, CaseMakesNoDifferenceAndEachNameComesOnce) {
  constexpr std::array<std::string_view, 3> kNames = {"Qwen3-4B", "qwen2.5", "Qwen3-4B"};
  EXPECT_EQ(nearest("QWEN3", kNames, 3), Names{"Qwen3-4B"});
}

TEST(Nearest, LongNamesAreComparedByTheirBeginning) {
  const std::string name(1'000'000, 'a');
  const std::array<std::string_view, 1> known = {name};
  EXPECT_EQ(nearest(std::string(2'000'000, 'A'), known, 3).size(), 1u);
  EXPECT_EQ(nearest(std::string(2'000'000, 'b'), known, 3), Names{});
}

TEST(Nearest, AHintIsASentenceOfBoundedLength) {
  EXPECT_EQ(did_you_mean("srve", kCommands), "; did you mean serve?");
  EXPECT_EQ(did_you_mean("rn", kCommands), "; did you mean run or rm?");
  EXPECT_EQ(did_you_mean("rn", kCommands, 1, "cairn "), "; did you mean cairn run?");
  EXPECT_EQ(did_you_mean("nonsense", kCommands), "");
  constexpr std::array<std::string_view, 4> kNames = {"aaaa", "aaab", "aaac", "aaad"};
  EXPECT_EQ(did_you_mean("aaae", kNames), "; did you mean aaaa, aaab or aaac?");
  const std::array<std::string_view, 1> hostile = {"a\x1b[31m"};
  EXPECT_EQ(did_you_mean("a\x1b[3", hostile).find('\x1b'), std::string::npos);
  const std::string name(1'000'000, 'a');
  const std::array<std::string_view, 1> known = {name};
  EXPECT_LT(did_you_mean(name, known).size(), 2 * kNearestBytesMax);
}

}  // namespace
}  // namespace cairn
