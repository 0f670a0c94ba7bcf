/// The radix tree of the prefix cache: which tokens have followed which. It does not deal with memory.
///
/// A node stands for the tokens of one page. Nodes of whole pages are found by the chained hash of all tokens up to
/// their end, in an open-addressing table (linear probing, deletion by shifting back), and verified by parent and
/// tokens, so that a collision of hashes never gives a wrong node. A node of less than a whole page is a leaf that is
/// found only through its parent. Each salt has a root node of no tokens, which lives as long as it has children.
///
/// Nothing allocates after creation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/kv.h"

namespace cairn::cache {

inline constexpr int32_t kNoNode = -1;

class PrefixTree {
 public:
  explicit PrefixTree(int32_t nodes_max);
  /// Bytes of a tree of at most `nodes_max` nodes.
  static int64_t bytes(int64_t nodes_max);

  int32_t nodes_max() const { return static_cast<int32_t>(nodes_.size()); }
  int32_t nodes_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t roots() const { return roots_; }

  /// The root of a salt, or kNoNode.
  int32_t root(uint64_t key) const;
  /// The child of `parent` for this whole page, or kNoNode.
  int32_t find(int32_t parent, uint64_t key, std::span<const TokenId> page) const;

  /// The add functions require a free node.
  int32_t add_root(uint64_t key);
  int32_t add(int32_t parent, uint64_t key, std::span<const TokenId> page);
  int32_t add_leaf(int32_t parent, std::span<const TokenId> tokens);
  /// Removes a node, which has no children.
  void remove(int32_t node);
  /// Makes the node the first of its parent's children.
  void to_front(int32_t node);

  int32_t parent(int32_t node) const { return nodes_[node].parent; }
  int32_t first_child(int32_t node) const { return nodes_[node].first_child; }
  int32_t next_sibling(int32_t node) const { return nodes_[node].next; }
  uint64_t key(int32_t node) const { return nodes_[node].key; }
  bool is_root(int32_t node) const { return nodes_[node].parent == kNoNode; }
  bool is_whole(int32_t node) const { return nodes_[node].count == kernels::kPageTokens; }
  /// The node's tokens are at positions [begin, end).
  int32_t begin(int32_t node) const { return nodes_[node].begin; }
  int32_t end(int32_t node) const { return nodes_[node].begin + nodes_[node].count; }
  std::span<const TokenId> tokens(int32_t node) const {
    return {tokens_.data() + int64_t{node} * kernels::kPageTokens, static_cast<size_t>(nodes_[node].count)};
  }

 private:
  struct Node {
    uint64_t key = 0;
    int32_t parent = kNoNode;
    int32_t first_child = kNoNode;
    int32_t next = kNoNode;  // siblings, the last used first
    int32_t previous = kNoNode;
    int32_t begin = 0;
    int32_t count = 0;
  };

  int32_t take(const Node& node, std::span<const TokenId> tokens);
  void link(int32_t node);
  void unlink(int32_t node);
  bool is_hashed(int32_t node) const { return is_root(node) || is_whole(node); }
  void hash(int32_t node);
  void unhash(int32_t node);
  static size_t slots_for(int64_t nodes_max);
  size_t slot_of(uint64_t key) const { return key & (slots_.size() - 1); }

  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // [node][kPageTokens]
  std::vector<int32_t> free_;
  std::vector<int32_t> slots_;  // hash table from keys to nodes; its size is a power of two, at most half full
  int32_t roots_ = 0;
};

}  // namespace cairn::cache
