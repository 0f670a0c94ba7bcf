#include "grammar/regex/text_tree.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::grammar {
namespace {

uint32_t walk(const TextTree& tree, std::string_view text) {
  uint32_t place = TextTree::kRoot;
  for (const char byte : text) {
    if (place == TextTree::kNowhere || place == TextTree::kEnd) return TextTree::kNowhere;
    place = tree.step(place, static_cast<uint8_t>(byte));
  }
  return place;
}

TEST(TextTree, HasItsTextsAndNoOthers) {
  const TextTree tree({"ab", "abc", "abd", "b", "xyz"});
  EXPECT_TRUE(tree.ends(walk(tree, "ab")));
  EXPECT_FALSE(tree.ends(walk(tree, "a")));
  for (const char* text : {"abc", "abd", "b", "xyz"}) EXPECT_EQ(walk(tree, text), TextTree::kEnd) << text;
  for (const char* text : {"c", "abe", "xz", "abcd", "ba"}) EXPECT_EQ(walk(tree, text), TextTree::kNowhere) << text;
  EXPECT_FALSE(tree.ends(walk(tree, "xy")));
}

TEST(TextTree, KnowsTheShortestRestAndTheNextBytes) {
  const TextTree tree({"ab", "abcd", "axyz", "\xFF"});
  EXPECT_EQ(tree.shortest(TextTree::kRoot), 1U);
  EXPECT_EQ(tree.shortest(walk(tree, "a")), 1U);
  EXPECT_EQ(tree.shortest(walk(tree, "ab")), 0U);
  EXPECT_EQ(tree.shortest(walk(tree, "ax")), 2U);
  const auto next = [&](std::string_view text) {
    std::string bytes;
    tree.each_byte(walk(tree, text), [&](uint8_t byte) { bytes += static_cast<char>(byte); });
    return bytes;
  };
  EXPECT_EQ(next(""), "a\xFF");
  EXPECT_EQ(next("a"), "bx");
  EXPECT_EQ(next("ax"), "y");
}

}  // namespace
}  // namespace cairn::grammar
