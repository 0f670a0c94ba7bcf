#include "cache/prefix_tree.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace cairn::cache {

PrefixTree::PrefixTree(int32_t nodes_max) : nodes_(nodes_max), tokens_(size_t{kernels::kPageTokens} * nodes_max) {
  CAIRN_CHECK(nodes_max > 0);
  free_.reserve(nodes_max);
  for (int32_t node = nodes_max - 1; node >= 0; --node) free_.push_back(node);
  slots_.assign(slots_for(nodes_max), kNoNode);
}

size_t PrefixTree::slots_for(int64_t nodes_max) { return std::bit_ceil(2 * static_cast<size_t>(nodes_max)); }

int64_t PrefixTree::bytes(int64_t nodes_max) {
  const int64_t of_node = sizeof(Node) + sizeof(TokenId) * kernels::kPageTokens + sizeof(int32_t);
  return nodes_max * of_node + static_cast<int64_t>(slots_for(nodes_max) * sizeof(int32_t));
}

int32_t PrefixTree::root(uint64_t key) const {
  for (size_t slot = slot_of(key); slots_[slot] != kNoNode; slot = slot_of(slot + 1)) {
    const int32_t node = slots_[slot];
    if (nodes_[node].key == key && is_root(node)) return node;
  }
  return kNoNode;
}

int32_t PrefixTree::find(int32_t parent, uint64_t key, std::span<const TokenId> page) const {
  for (size_t slot = slot_of(key); slots_[slot] != kNoNode; slot = slot_of(slot + 1)) {
    const int32_t node = slots_[slot];
    if (nodes_[node].key == key && nodes_[node].parent == parent && std::ranges::equal(tokens(node), page)) return node;
  }
  return kNoNode;
}

int32_t PrefixTree::add_root(uint64_t key) {
  const int32_t node = take({.key = key}, {});
  hash(node);
  ++roots_;
  return node;
}

int32_t PrefixTree::add(int32_t parent, uint64_t key, std::span<const TokenId> page) {
  CAIRN_CHECK(page.size() == kernels::kPageTokens);
  const int32_t node = take({.key = key, .parent = parent, .begin = end(parent), .count = kernels::kPageTokens}, page);
  link(node);
  hash(node);
  return node;
}

int32_t PrefixTree::add_leaf(int32_t parent, std::span<const TokenId> tokens) {
  CAIRN_CHECK(!tokens.empty() && tokens.size() < kernels::kPageTokens);
  const int32_t node =
      take({.parent = parent, .begin = end(parent), .count = static_cast<int32_t>(tokens.size())}, tokens);
  link(node);
  return node;
}

void PrefixTree::remove(int32_t node) {
  CAIRN_CHECK(first_child(node) == kNoNode);
  if (is_hashed(node)) unhash(node);
  if (is_root(node)) {
    --roots_;
  } else {
    unlink(node);
  }
  free_.push_back(node);
}

void PrefixTree::to_front(int32_t node) {
  if (nodes_[node].previous == kNoNode) return;
  unlink(node);
  link(node);
}

int32_t PrefixTree::take(const Node& node, std::span<const TokenId> tokens) {
  CAIRN_CHECK(!free_.empty());
  const int32_t id = free_.back();
  free_.pop_back();
  nodes_[id] = node;
  std::ranges::copy(tokens, tokens_.begin() + int64_t{id} * kernels::kPageTokens);
  return id;
}

void PrefixTree::link(int32_t node) {
  const int32_t next = nodes_[nodes_[node].parent].first_child;
  nodes_[node].previous = kNoNode;
  nodes_[node].next = next;
  if (next != kNoNode) nodes_[next].previous = node;
  nodes_[nodes_[node].parent].first_child = node;
}

void PrefixTree::unlink(int32_t node) {
  const Node& gone = nodes_[node];
  if (gone.next != kNoNode) nodes_[gone.next].previous = gone.previous;
  if (gone.previous != kNoNode) {
    nodes_[gone.previous].next = gone.next;
  } else {
    nodes_[gone.parent].first_child = gone.next;
  }
}

void PrefixTree::hash(int32_t node) {
  size_t slot = slot_of(nodes_[node].key);
  while (slots_[slot] != kNoNode) slot = slot_of(slot + 1);
  slots_[slot] = node;
}

void PrefixTree::unhash(int32_t node) {
  size_t hole = slot_of(nodes_[node].key);
  while (slots_[hole] != node) hole = slot_of(hole + 1);
  // Backward shift: each following entry moves into the hole, unless its search begins after the hole.
  for (size_t slot = slot_of(hole + 1); slots_[slot] != kNoNode; slot = slot_of(slot + 1)) {
    const size_t begin = slot_of(nodes_[slots_[slot]].key);
    if (slot_of(slot - begin) < slot_of(slot - hole)) continue;
    slots_[hole] = slots_[slot];
    hole = slot;
  }
  slots_[hole] = kNoNode;
}

}  // namespace cairn::cache
