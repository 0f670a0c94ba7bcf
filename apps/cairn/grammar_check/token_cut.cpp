#include "grammar_check/token_cut.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "base/ids.h"
#include "sampling/random.h"

namespace cairn {

TokenCutter::TokenCutter(const tokenizer::Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  std::set<size_t> lengths;
  for (int32_t i = 0; i < tokenizer.size(); ++i) {
    const TokenId token{i};
    if (tokenizer.is_special(token) || tokenizer.ends_generation(token)) continue;
    const std::string_view bytes = tokenizer.piece(token, /*render_special=*/false);
    if (bytes.empty()) continue;
    by_bytes_.try_emplace(bytes, token);
    lengths.insert(bytes.size());
    if (ordinary_ == kNoToken) ordinary_ = token;
  }
  lengths_.assign(lengths.begin(), lengths.end());
}

Result<std::vector<TokenId>> TokenCutter::canonical(std::string_view text) const {
  CAIRN_TRY(std::vector<TokenId> tokens, tokenizer_.encode(text, {.after = ordinary_}));
  std::string joined;
  for (const TokenId token : tokens) joined += tokenizer_.piece(token, /*render_special=*/false);
  if (joined != text) return fail(Code::kInvalidArgument, "the tokenizer changes a text before it cuts it");
  return tokens;
}

Result<std::vector<TokenId>> TokenCutter::cut(std::string_view text, const TokenCut& how) const {
  if (how.way == TokenCut::Way::kCanonical) return canonical(text);
  // From the end: the most tokens that give the text from there on; -1: none do.
  std::vector<int64_t> most(text.size() + 1, -1);
  most[text.size()] = 0;
  const auto fitting = [&](size_t at) {
    return std::span(lengths_).first(
        static_cast<size_t>(std::ranges::upper_bound(lengths_, text.size() - at) - lengths_.begin()));
  };
  const auto after = [&](size_t at, size_t length) -> int64_t {
    return by_bytes_.contains(text.substr(at, length)) ? most[at + length] : -1;
  };
  for (size_t at = text.size(); at-- > 0;) {
    for (const size_t length : fitting(at))
      if (const int64_t rest = after(at, length); rest >= 0) most[at] = std::max(most[at], rest + 1);
  }
  if (most[0] < 0) return fail(Code::kInvalidArgument, "no tokens of the vocabulary give the text");
  std::vector<TokenId> tokens;
  for (size_t at = 0; at < text.size();) {
    std::vector<size_t> usable;
    for (const size_t length : fitting(at)) {
      const int64_t rest = after(at, length);
      if (rest >= 0 && (how.way == TokenCut::Way::kRandom || rest + 1 == most[at])) usable.push_back(length);
    }
    const double draw = how.way == TokenCut::Way::kRandom ? sampling::uniform(how.seed, tokens.size()) : 0;
    const size_t length = usable[static_cast<size_t>(draw * static_cast<double>(usable.size()))];
    tokens.push_back(by_bytes_.at(text.substr(at, length)));
    at += length;
  }
  return tokens;
}

}  // namespace cairn
