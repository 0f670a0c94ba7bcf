#include "tokenizer/models/spm.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "tokenizer/models/merge.h"
#include "tokenizer/text/lenient_utf8.h"

namespace cairn::tokenizer {
namespace {

// An integer that orders like the score, with the best score lowest. Bits of a float compare like its value except for
// the sign.
uint32_t priority_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes 0
  const uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

// Llama 2 and its successors put a space before every part of a text between special tokens. Mistral's vocabularies
// from version 3 on, which have control tokens for instructions, do so only before the whole text: their templates
// write the space after [INST] themselves. There is no key for it.
bool prefixes_only_at_start(const Vocabulary& vocabulary) {
  const TokenId instruction = vocabulary.find("[INST]");
  return instruction != kNoToken && vocabulary.type(instruction) == TokenType::kControl;
}

// Whether a control token has "▁" in its text, which is then not a space: CodeLlama's "▁<PRE>".
bool has_escaped_control(const Vocabulary& vocabulary) {
  for (int32_t i = 0; i < vocabulary.size(); ++i) {
    const TokenId id{i};
    const bool found = vocabulary.hidden(id) || vocabulary.type(id) == TokenType::kUserDefined;
    if (found && vocabulary.entry(id).find(kEscapedSpace) != std::string_view::npos) return true;
  }
  return false;
}

size_t byte_at(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

}  // namespace

SpmTokenizer::SpmTokenizer(Vocabulary vocabulary, SpecialTokens special, Decoding decoding)
    : VocabularyTokenizer(std::move(vocabulary), special, decoding), add_space_prefix_(decoding.drops_first_space) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string entry = {'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'};
    const char as_text = static_cast<char>(byte);
    TokenId& token = byte_token_[byte];
    token = this->vocabulary().find(entry);
    if (token == kNoToken) token = this->vocabulary().find(std::string_view(&as_text, 1));
    if (token == kNoToken) token = special.unknown;
    loses_bytes_ |= token == kNoToken;
  }
  for (int32_t i = 0; i < this->vocabulary().size(); ++i) {
    const std::string_view entry = this->vocabulary().entry(TokenId{i});
    for (size_t at = entry.find(kEscapedSpace, 1); at < entry.size(); at = entry.find(kEscapedSpace, at + 1))
      joins_space_.set(byte_at(entry, at - 1));
  }
}

Result<std::unique_ptr<Tokenizer>> SpmTokenizer::make(Vocabulary vocabulary, SpecialTokens special,
                                                      bool add_space_prefix) {
  if (!vocabulary.has_scores()) {
    return fail_at("tokenizer.ggml.scores", Code::kCorruptFile, "a SentencePiece vocabulary needs scores");
  }
  vocabulary.set_pieces(PieceStyle::kEscapedSpace);
  const Decoding decoding{.drops_first_space = add_space_prefix,
                          .tidies_spaces = false,
                          .prefix_only_at_start = prefixes_only_at_start(vocabulary),
                          .underscore_is_space = !has_escaped_control(vocabulary)};
  return std::unique_ptr<Tokenizer>(new SpmTokenizer(std::move(vocabulary), special, decoding));
}

Result<void> SpmTokenizer::encode_text(std::string_view text, bool after_special, std::vector<TokenId>& out) const {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 2 + 3);
  if (add_space_prefix_ && after_special) append_escaped_spaces(escaped, " ");
  append_escaped_spaces(escaped, text);
  const std::string_view all = escaped;

  MergeScratch scratch;
  for (size_t i = 0; i < all.size();) {
    // No token spans this place: merges on the two sides are independent of each other, so each side is encoded alone.
    const bool apart = i > 0 && all.substr(i).starts_with(kEscapedSpace) && !joins_space_[byte_at(all, i - 1)];
    if (apart) take_tokens(all, scratch, out);
    const size_t length = std::min<size_t>(static_cast<size_t>(lenient_length(all[i])), all.size() - i);
    const TokenId token = vocabulary().find_plain(all.substr(i, length));
    scratch.add(static_cast<uint32_t>(index(token)), static_cast<uint32_t>(i), static_cast<uint32_t>(length));
    i += length;
  }
  if (!all.empty()) take_tokens(all, scratch, out);
  return {};
}

void SpmTokenizer::take_tokens(std::string_view all, MergeScratch& scratch, std::vector<TokenId>& out) const {
  const Vocabulary& words = vocabulary();
  merge_symbols(scratch, [&](const Symbol& left, const Symbol& right) -> Merge {
    const size_t length = size_t{left.length} + right.length;
    if (length > words.entry_bytes_max()) return {};
    const TokenId token = words.find_plain(all.substr(left.begin, length));
    if (token == kNoToken) return {};
    return {priority_of(words.score(token)), static_cast<uint32_t>(index(token))};
  });
  for (int32_t i = 0; i >= 0; i = scratch.symbols[i].next) {
    const Symbol& symbol = scratch.symbols[i];
    const TokenId token{static_cast<int32_t>(symbol.id)};
    if (token != kNoToken) {
      out.push_back(token);
      continue;
    }
    for (const char c : all.substr(symbol.begin, symbol.length)) {
      const TokenId byte = byte_token_[static_cast<unsigned char>(c)];
      if (byte != kNoToken) out.push_back(byte);
    }
  }
  scratch.symbols.clear();
}

}  // namespace cairn::tokenizer
