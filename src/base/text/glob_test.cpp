#include "base/text/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

TEST(Glob, StarsStandForAnyBytesAndQuestionMarksForOne) {
  for (const auto& [pattern, text] : {std::pair{"qwen3", "qwen3"},
                                      {"*", ""},
                                      {"*", "anything"},
                                      {"qwen*", "qwen"},
                                      {"qwen*", "qwen3:4b"},
                                      {"*:4b", "qwen3:4b"},
                                      {"q*3*b", "qwen3:3:4b"},
                                      {"qwen?", "qwen3"},
                                      {"**a**", "bab"}})
    EXPECT_TRUE(glob_matches(pattern, text)) << pattern << " " << text;
  for (const auto& [pattern, text] : {std::pair{"qwen3", "qwen"},
                                      {"qwen", "qwen3"},
                                      {"", "a"},
                                      {"qwen?", "qwen"},
                                      {"*:4b", "qwen3:4b-q8"},
                                      {"Qwen*", "qwen3"},
                                      {"a*b*c", "a-b-"}})
    EXPECT_FALSE(glob_matches(pattern, text)) << pattern << " " << text;
}

TEST(Glob, ManyStarsTakeNoMoreThanTheProductOfBothLengths) {
  std::string pattern;
  for (int i = 0; i < 1'000; ++i) pattern += "a*";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(4'000, 'a')));
}

}  // namespace
}  // namespace cairn
