#include "grammar/vocabulary_trie.h"

#include <algorithm>

namespace cairn::grammar {

VocabularyTrie::VocabularyTrie(std::vector<Entry> entries) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.token < b.token;
  });
  std::vector<uint32_t> path{0};  // nodes of the text before
  bytes_.push_back(0);
  depths_.push_back(0);
  ends_.push_back(0);
  first_tokens_.push_back(0);
  const auto close = [&](size_t length) {
    for (; path.size() > length + 1; path.pop_back()) ends_[path.back()] = size();
  };
  std::string_view before;
  for (const Entry& entry : entries) {
    const std::string_view text = entry.bytes;
    const auto common = static_cast<size_t>(std::ranges::mismatch(before, text).in1 - before.begin());
    close(common);
    for (size_t i = common; i < text.size(); ++i) {
      path.push_back(size());
      bytes_.push_back(static_cast<uint8_t>(text[i]));
      depths_.push_back(static_cast<uint16_t>(i + 1));
      ends_.push_back(0);
      first_tokens_.push_back(static_cast<uint32_t>(tokens_.size()));
    }
    tokens_.push_back(entry.token);
    longest_ = std::max(longest_, static_cast<uint32_t>(text.size()));
    before = text;
  }
  close(0);
  ends_[0] = size();
  first_tokens_.push_back(static_cast<uint32_t>(tokens_.size()));
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
