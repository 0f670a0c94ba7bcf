#include "grammar/masks/vocabulary_trie.h"

#include <algorithm>

namespace cairn::grammar {

VocabularyTrie::VocabularyTrie(std::vector<Entry> entries) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.token < b.token;
  });
  std::vector<uint32_t> path{0};  // nodes of the text before
  nodes_.emplace_back();
  const auto count = [&] { return static_cast<uint32_t>(nodes_.size()); };
  const auto close = [&](size_t length) {
    for (; path.size() > length + 1; path.pop_back()) nodes_[path.back()].end = count();
  };
  std::string_view before;
  for (const Entry& entry : entries) {
    const std::string_view text = entry.bytes;
    const auto common = static_cast<size_t>(std::ranges::mismatch(before, text).in1 - before.begin());
    close(common);
    for (size_t i = common; i < text.size(); ++i) {
      path.push_back(count());
      nodes_.push_back({.first_token = static_cast<uint32_t>(tokens_.size()),
                        .depth = static_cast<uint16_t>(i + 1),
                        .byte = static_cast<uint8_t>(text[i])});
    }
    tokens_.push_back(entry.token);
    longest_ = std::max(longest_, static_cast<uint32_t>(text.size()));
    before = text;
  }
  close(0);
  nodes_[0].end = count();
  nodes_.push_back({.first_token = static_cast<uint32_t>(tokens_.size())});
}

std::string VocabularyTrie::path(uint32_t node) const {
  std::string result;
  for (uint32_t at = 1; result.size() < depth(node);) {
    if (node < end(at)) {
      result += static_cast<char>(byte(at++));
    } else {
      at = end(at);
    }
  }
  return result;
}

}  // namespace cairn::grammar
