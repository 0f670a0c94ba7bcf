#include "sampling/text_ban.h"

#include <algorithm>

#include "base/check.h"

namespace cairn::sampling {

TextBan::TextBan(const tokenizer::Tokenizer& tokenizer, std::span<const std::string_view> texts) {
  for (const std::string_view text : texts) {
    CAIRN_CHECK(!text.empty() && text.size() <= kBannedTextBytesMax);
    texts_.push_back({std::string(text), std::vector<std::vector<TokenId>>(text.size())});
    tail_bytes_ = std::max(tail_bytes_, text.size() - 1);
  }
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string_view piece = tokenizer.piece(TokenId{id}, true);
    for (Text& text : texts_) {
      if (piece.find(text.text) != std::string_view::npos) {
        text.completing[0].push_back(TokenId{id});
        continue;
      }
      for (size_t written = 1; written < text.text.size(); ++written) {
        if (piece.starts_with(std::string_view(text.text).substr(written)))
          text.completing[written].push_back(TokenId{id});
      }
    }
  }
}

void TextBan::next(std::string_view tail, std::vector<TokenId>& banned) const {
  for (const Text& text : texts_) {
    banned.insert(banned.end(), text.completing[0].begin(), text.completing[0].end());
    for (size_t written = 1; written < text.text.size(); ++written) {
      if (!tail.ends_with(std::string_view(text.text).substr(0, written))) continue;
      banned.insert(banned.end(), text.completing[written].begin(), text.completing[written].end());
    }
  }
}

}  // namespace cairn::sampling
