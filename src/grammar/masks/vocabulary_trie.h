/// The bytes of a vocabulary's tokens as a prefix tree, flat in depth-first order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/ids.h"

namespace cairn::grammar {

inline constexpr size_t kTokenBytesMax = 1'024;  ///< tokens of more bytes are in no mask

/// Immutable. Node 0 is the root, the empty text; a node's descendants follow it.
class VocabularyTrie {
 public:
  struct Entry {
    std::string_view bytes;
    TokenId token;
  };
  /// Makes the tree of non-empty texts of at most kTokenBytesMax bytes; several tokens may have the same bytes.
  explicit VocabularyTrie(std::vector<Entry> entries);

  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()) - 1; }
  uint8_t byte(uint32_t node) const { return nodes_[node].byte; }
  /// Bytes from the root.
  uint32_t depth(uint32_t node) const { return nodes_[node].depth; }
  /// The first node behind `node` that is none of its descendants.
  uint32_t end(uint32_t node) const { return nodes_[node].end; }
  /// Tokens whose bytes end at the node.
  std::span<const TokenId> tokens(uint32_t node) const {
    return std::span(tokens_).subspan(nodes_[node].first_token,
                                      nodes_[node + 1].first_token - nodes_[node].first_token);
  }
  /// The text of a node, from the root.
  std::string path(uint32_t node) const;
  /// Bytes of the longest text.
  uint32_t longest() const { return longest_; }

 private:
  struct Node {
    uint32_t end = 0;
    uint32_t first_token = 0;
    uint16_t depth = 0;
    uint8_t byte = 0;
  };
  std::vector<Node> nodes_;  // and one behind the last
  std::vector<TokenId> tokens_;
  uint32_t longest_ = 0;
};

}  // namespace cairn::grammar
