/// A byte trie over a fixed set of keys: finds all keys that begin at a place of a text in one walk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace cairn::tokenizer {

class Trie {
 public:
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNoNode = UINT32_MAX;
  /// Longer keys are left out, which bounds every walk. The longest entries of published vocabularies have 1,024 bytes.
  static constexpr size_t kKeyBytesMax = 4096;

  struct Item {
    std::string_view key;
    int32_t value = 0;  ///< not negative
  };

  Trie() : Trie(std::vector<Item>{}) {}
  /// The first of several equal keys counts. Empty keys are left out.
  explicit Trie(std::vector<Item> items);

  /// The child for a byte; kNoNode if no key continues with it.
  Node child(Node node, unsigned char byte) const {
    if (node == kRoot) return root_children_[byte];
    const unsigned char* labels = labels_.data() + first_child_[node];
    const void* found = std::memchr(labels, byte, child_count_[node]);
    if (found == nullptr) return kNoNode;
    return first_child_[node] + static_cast<Node>(static_cast<const unsigned char*>(found) - labels);
  }
  /// The value of the key that ends here, or -1.
  int32_t value(Node node) const { return values_[node]; }
  bool empty() const { return values_.size() == 1; }

 private:
  std::array<Node, 256> root_children_;
  std::vector<Node> first_child_;  // children of a node are consecutive
  std::vector<uint16_t> child_count_;
  std::vector<unsigned char> labels_;
  std::vector<int32_t> values_;
};

}  // namespace cairn::tokenizer
