#include "tokenizer/models/unigram.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tokenizer/text/lenient_utf8.h"

namespace cairn::tokenizer {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";        // U+2581
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
// How much lower than the lowest score that of an unknown character is: sentencepiece's constant.
constexpr float kUnknownPenalty = 10.0f;

size_t longest_key(const Trie& trie, std::string_view text) {
  size_t longest = 0;
  Trie::Node node = Trie::kRoot;
  for (size_t i = 0; i < text.size(); ++i) {
    node = trie.child(node, static_cast<unsigned char>(text[i]));
    if (node == Trie::kNoNode) break;
    if (trie.value(node) >= 0) longest = i + 1;
  }
  return longest;
}

}  // namespace

UnigramTokenizer::UnigramTokenizer(Vocabulary vocabulary, SpecialTokens special, Charsmap charsmap, Config config)
    : VocabularyTokenizer(std::move(vocabulary), special,
                          {.drops_first_space = config.add_space_prefix, .tidies_spaces = false}),
      charsmap_(std::move(charsmap)),
      config_(config) {
  const Vocabulary& words = this->vocabulary();
  std::vector<Trie::Item> all;
  std::vector<Trie::Item> user_defined;
  float worst = 0;
  for (int32_t i = 0; i < words.size(); ++i) {
    const TokenId id{i};
    const TokenType type = words.type(id);
    const Trie::Item item{words.entry(id), i};
    if (type == TokenType::kNormal) worst = std::min(worst, words.score(id));
    if (type == TokenType::kUserDefined) user_defined.push_back(item);
    if (type == TokenType::kNormal || type == TokenType::kUserDefined) all.push_back(item);
  }
  tokens_ = Trie(std::move(all));
  user_defined_ = Trie(std::move(user_defined));
  unknown_score_ = worst - kUnknownPenalty;
}

Result<std::unique_ptr<Tokenizer>> UnigramTokenizer::make(Vocabulary vocabulary, SpecialTokens special,
                                                          Charsmap charsmap, Config config) {
  if (!vocabulary.has_scores()) {
    return fail_at("tokenizer.ggml.scores", Code::kCorruptFile, "a unigram vocabulary needs scores");
  }
  if (special.unknown == kNoToken) {
    return fail_at("tokenizer.ggml.unknown_token_id", Code::kCorruptFile,
                   "a unigram vocabulary needs an unknown token");
  }
  vocabulary.set_pieces(PieceStyle::kEscapedSpace);
  return std::unique_ptr<Tokenizer>(new UnigramTokenizer(std::move(vocabulary), special, std::move(charsmap), config));
}

std::string UnigramTokenizer::normalise(std::string_view text, bool after_special) const {
  std::string out;
  out.reserve(text.size() + text.size() / 2 + kSpace.size());
  bool prefix_due = config_.add_space_prefix && after_special;
  bool in_word = !after_special;
  const auto append = [&](std::string_view part) {
    for (const char c : part) {
      if (c == ' ') {
        in_word = false;
        if (!config_.remove_extra_whitespaces) out.append(kSpace);
        continue;
      }
      if (!in_word && (prefix_due || config_.remove_extra_whitespaces)) out.append(kSpace);
      if (!in_word) prefix_due = false;
      in_word = true;
      out += c;
    }
  };
  for (size_t offset = 0; offset < text.size();) {
    const std::string_view rest = text.substr(offset);
    if (const size_t length = longest_key(user_defined_, rest); length > 0) {
      append(rest.substr(0, length));
      offset += length;
    } else if (const Charsmap::Match match = charsmap_.longest(rest); match.length > 0) {
      append(match.replacement);
      offset += match.length;
    } else {
      const LenientChar c = lenient_decode(text, offset);
      append(c.shaped ? rest.substr(0, static_cast<size_t>(c.length)) : kReplacement);
      offset += static_cast<size_t>(c.length);
    }
  }
  return out;
}

// Viterbi: best[i] is the best segmentation of the first i bytes, known when the walk comes to i.
Result<void> UnigramTokenizer::encode_text(std::string_view text, bool after_special, std::vector<TokenId>& out) const {
  const std::string normalised = normalise(text, after_special);
  const std::string_view all = normalised;
  const TokenId unknown = special().unknown;
  struct Cut {
    // Sums are rounded to float at each token, as in sentencepiece: which of two segmentations with the same tokens in
    // another order is better depends on it.
    float score = -std::numeric_limits<float>::infinity();
    uint32_t begin = 0;  // begin of the last token
    TokenId token = kNoToken;
  };
  std::vector<Cut> best(all.size() + 1);
  best[0].score = 0;
  const auto offer = [&](size_t end, float score, size_t begin, TokenId token) {
    if (score > best[end].score) best[end] = {score, static_cast<uint32_t>(begin), token};
  };
  for (size_t begin = 0; begin < all.size();) {
    const size_t character = std::min<size_t>(static_cast<size_t>(lenient_length(all[begin])), all.size() - begin);
    const float score = best[begin].score;
    bool has_character = false;
    Trie::Node node = Trie::kRoot;
    for (size_t i = begin; i < all.size(); ++i) {
      node = tokens_.child(node, static_cast<unsigned char>(all[i]));
      if (node == Trie::kNoNode) break;
      if (tokens_.value(node) < 0) continue;
      const TokenId token{tokens_.value(node)};
      has_character = has_character || i + 1 - begin == character;
      const bool user_defined = vocabulary().type(token) == TokenType::kUserDefined;
      offer(i + 1, score + (user_defined ? 0.0f : vocabulary().score(token)), begin, token);
    }
    if (!has_character) offer(begin + character, score + unknown_score_, begin, unknown);
    begin += character;
  }

  const size_t first = out.size();
  for (size_t end = all.size(); end > 0; end = best[end].begin) {
    const TokenId token = best[end].token;
    // Adjacent unknown characters become one unknown token.
    if (token != unknown || out.size() == first || out.back() != unknown) out.push_back(token);
  }
  std::reverse(out.begin() + static_cast<ptrdiff_t>(first), out.end());
  return {};
}

}  // namespace cairn::tokenizer
