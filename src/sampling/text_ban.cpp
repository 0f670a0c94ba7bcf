#include "sampling/text_ban.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/check.h"

namespace cairn::sampling {

TextBan::TextBan(const tokenizer::Tokenizer& tokenizer, std::span<const std::string_view> texts) {
  std::unordered_map<std::string_view, uint32_t> endings;  // to its list
  std::array<std::vector<uint32_t>, 256> beginning;        // texts by their first byte
  auto lists = static_cast<uint32_t>(texts.size());
  for (const std::string_view text : texts) {
    CAIRN_CHECK(!text.empty() && text.size() <= kBannedTextBytesMax);
    const auto number = static_cast<uint32_t>(texts_.size());
    beginning[static_cast<uint8_t>(text[0])].push_back(number);
    Text& added = texts_.emplace_back(Text{std::string(text), {number}});
    for (size_t written = 1; written < text.size(); ++written) {
      const auto [ending, is_new] = endings.try_emplace(text.substr(written), lists);
      added.completing.push_back(ending->second);
      lists += is_new ? 1 : 0;
    }
    tail_bytes_ = std::max(tail_bytes_, text.size() - 1);
  }
  lists_.resize(lists);
  const auto add = [this](uint32_t list, int32_t id) {
    if (lists_[list].empty() || lists_[list].back() != TokenId{id}) lists_[list].push_back(TokenId{id});
  };
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string_view piece = tokenizer.piece(TokenId{id}, true);
    for (size_t at = 0; at < piece.size(); ++at) {
      for (const uint32_t number : beginning[static_cast<uint8_t>(piece[at])])
        if (piece.substr(at).starts_with(texts_[number].text)) add(number, id);
    }
    for (size_t bytes = 1; bytes <= std::min(piece.size(), tail_bytes_); ++bytes) {
      if (const auto ending = endings.find(piece.substr(0, bytes)); ending != endings.end()) add(ending->second, id);
    }
  }
}

void TextBan::next(std::string_view tail, std::vector<TokenId>& banned) const {
  each_containing([&](TokenId token) { banned.push_back(token); });
  next_completing(tail, banned);
}

void TextBan::next_completing(std::string_view tail, std::vector<TokenId>& banned) const {
  if (tail.empty()) return;
  for (size_t number = 0; number < texts_.size(); ++number) {
    const std::string_view text = texts_[number].text;
    for (size_t written = 1; written < text.size(); ++written) {
      if (text[written - 1] != tail.back() || !tail.ends_with(text.substr(0, written))) continue;
      const std::span<const TokenId> tokens = completing(number, written);
      banned.insert(banned.end(), tokens.begin(), tokens.end());
    }
  }
}

}  // namespace cairn::sampling
