#include "cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "cache/eviction_order.h"

namespace cairn::cache {
namespace {

std::vector<TokenId> page_of(int32_t value) { return std::vector<TokenId>(kernels::kPageTokens, TokenId{value}); }

TEST(PrefixTree, CollidingHashesFindTheirOwnNodes) {
  PrefixTree tree(8);
  const int32_t root = tree.add_root(5), other_root = tree.add_root(6);
  const int32_t a = tree.add(root, 5, page_of(1));
  const int32_t b = tree.add(root, 5, page_of(2));
  const int32_t c = tree.add(other_root, 5, page_of(1));
  const int32_t d = tree.add(a, 5, page_of(1));
  EXPECT_EQ(tree.root(5), root);
  EXPECT_EQ(tree.root(6), other_root);
  EXPECT_EQ(tree.root(7), kNoNode);
  EXPECT_EQ(tree.find(root, 5, page_of(1)), a);
  EXPECT_EQ(tree.find(root, 5, page_of(2)), b);
  EXPECT_EQ(tree.find(root, 5, page_of(3)), kNoNode);
  EXPECT_EQ(tree.find(other_root, 5, page_of(1)), c);
  EXPECT_EQ(tree.find(a, 5, page_of(1)), d);
  EXPECT_EQ(tree.find(b, 5, page_of(1)), kNoNode);
  tree.remove(b);
  EXPECT_EQ(tree.find(root, 5, page_of(2)), kNoNode);
  EXPECT_EQ(tree.find(a, 5, page_of(1)), d);
}

TEST(PrefixTree, ChildrenAreListedLastUsedFirst) {
  PrefixTree tree(8);
  const int32_t root = tree.add_root(1);
  const int32_t a = tree.add(root, 2, page_of(1));
  const int32_t b = tree.add_leaf(root, std::vector(3, TokenId{7}));
  const int32_t c = tree.add(root, 3, page_of(3));
  const auto children = [&] {
    std::vector<int32_t> list;
    for (int32_t child = tree.first_child(root); child != kNoNode; child = tree.next_sibling(child))
      list.push_back(child);
    return list;
  };
  EXPECT_EQ(children(), (std::vector{c, b, a}));
  tree.to_front(b);
  EXPECT_EQ(children(), (std::vector{b, c, a}));
  tree.to_front(a);
  tree.to_front(a);
  EXPECT_EQ(children(), (std::vector{a, b, c}));
  tree.remove(b);
  EXPECT_EQ(children(), (std::vector{a, c}));
  EXPECT_EQ(tree.end(tree.add_leaf(a, std::vector(3, TokenId{7}))), kernels::kPageTokens + 3);
}

TEST(PrefixTree, AgreesWithAMapUnderRandomInsertionAndRemovalWithFewHashes) {
  constexpr uint32_t kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  PrefixTree tree(60);
  const int32_t root = tree.add_root(0);
  std::map<int32_t, std::pair<uint64_t, int32_t>> nodes;  // node -> (key, value)
  for (int32_t step = 0; step < 5'000; ++step) {
    if (tree.nodes_free() > 0 && random() % 2 == 0) {
      // Keys from all over the table, but mostly near its end, so that probe sequences wrap around.
      const uint64_t key = random() % 2 == 0 ? 120 + random() % 8 : random() % 128;
      nodes[tree.add(root, key, page_of(step))] = {key, step};
    } else if (!nodes.empty()) {
      const auto gone = std::next(nodes.begin(), static_cast<int64_t>(random() % nodes.size()));
      tree.remove(gone->first);
      ASSERT_EQ(tree.find(root, gone->second.first, page_of(gone->second.second)), kNoNode);
      nodes.erase(gone);
    }
    for (const auto& [node, what] : nodes) ASSERT_EQ(tree.find(root, what.first, page_of(what.second)), node);
    ASSERT_EQ(tree.root(0), root);
  }
}

TEST(ValueHeap, TheFirstNodeIsTheSmallestAfterAnyChange) {
  constexpr uint32_t kSeed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  ValueHeap heap(40);
  std::map<int32_t, double> values;
  for (int step = 0; step < 5'000; ++step) {
    const auto node = static_cast<int32_t>(random() % 40);
    if (random() % 3 == 0) {
      heap.remove(node);
      values.erase(node);
    } else {
      values[node] = static_cast<double>(random() % 10);
      heap.put(node, values[node]);
    }
    ASSERT_EQ(heap.empty(), values.empty());
    ASSERT_EQ(heap.contains(node), values.contains(node));
    if (values.empty()) continue;
    const auto first =
        std::ranges::min_element(values, {}, [](const auto& each) { return std::pair(each.second, each.first); });
    ASSERT_EQ(heap.first(), first->first);
    ASSERT_EQ(heap.first_value(), first->second);
  }
}

TEST(UseList, ListsNodesInOrderOfUse) {
  UseList list(5);
  for (const int32_t node : {3, 1, 4}) list.push_back(node);
  EXPECT_EQ(list.first(), 3);
  list.to_back(3);
  EXPECT_EQ(list.first(), 1);
  list.remove(1);
  EXPECT_EQ(list.first(), 4);
  list.remove(4);
  EXPECT_EQ(list.first(), 3);
  EXPECT_EQ(list.size(), 1);
}

}  // namespace
}  // namespace cairn::cache
