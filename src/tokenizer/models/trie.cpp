#include "tokenizer/models/trie.h"

#include <algorithm>

namespace cairn::tokenizer {

Trie::Trie(std::vector<Item> items) {
  std::erase_if(items, [](const Item& item) { return item.key.empty() || item.key.size() > kKeyBytesMax; });
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.key < b.key; });

  // Built breadth first: node i holds the items [begin, end), which share their first `depth` bytes.
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, items.size(), 0}};
  labels_.push_back(0);
  for (size_t node = 0; node < ranges.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    const bool ends_here = begin < end && items[begin].key.size() == depth;  // the shortest key sorts first
    values_.push_back(ends_here ? items[begin].value : -1);
    while (begin < end && items[begin].key.size() == depth) ++begin;
    first_child_.push_back(static_cast<Node>(ranges.size()));
    uint16_t children = 0;
    while (begin < end) {
      const char label = items[begin].key[depth];
      size_t next = begin;
      while (next < end && items[next].key[depth] == label) ++next;
      ranges.push_back({begin, next, depth + 1});
      labels_.push_back(static_cast<unsigned char>(label));
      ++children;
      begin = next;
    }
    child_count_.push_back(children);
  }
  root_children_.fill(kNoNode);
  for (Node i = first_child_[kRoot]; i < first_child_[kRoot] + child_count_[kRoot]; ++i) root_children_[labels_[i]] = i;
}

}  // namespace cairn::tokenizer
