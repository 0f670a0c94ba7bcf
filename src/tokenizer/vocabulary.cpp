#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <cmath>

#include "tokenizer/models/byte_level.h"

namespace cairn::tokenizer {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void append_unescaped(std::string& out, std::string_view entry) {
  while (true) {
    const size_t at = entry.find(kEscapedSpace);
    out.append(entry.substr(0, at));
    if (at == std::string_view::npos) return;
    out += ' ';
    entry.remove_prefix(at + kEscapedSpace.size());
  }
}

int byte_of_entry(std::string_view entry) {
  if (entry.size() != 6 || !entry.starts_with("<0x") || entry.back() != '>') return -1;
  const int high = hex_digit(entry[3]);
  const int low = hex_digit(entry[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

Result<Vocabulary> Vocabulary::load(const gguf::Metadata& metadata) {
  CAIRN_TRY(const auto entries, metadata.strings(kTokensKey));
  if (entries.empty()) return fail_at(std::string(kTokensKey), Code::kCorruptFile, "the vocabulary has no tokens");
  if (entries.size() > kVocabularyTokensMax) {
    return fail_at(std::string(kTokensKey), Code::kTooLarge, "the vocabulary has {} tokens, over {}", entries.size(),
                   kVocabularyTokensMax);
  }
  Vocabulary out;
  out.text_of_.reserve(entries.size());
  for (const std::string_view entry : entries) {
    const uint32_t text = out.texts_.intern(entry);
    if (text == out.first_with_text_.size()) {  // a new text
      out.first_with_text_.push_back(entry.empty() ? kNoToken : TokenId(out.size()));
    }
    out.text_of_.push_back(text);
    out.entry_bytes_max_ = std::max(out.entry_bytes_max_, entry.size());
  }
  out.types_.assign(entries.size(), TokenType::kNormal);
  out.marks_.assign(entries.size(), 0);

  out.has_types_ = metadata.contains(kTypesKey);
  if (out.has_types_) {
    CAIRN_TRY(const std::vector<int64_t> types, metadata.integers(kTypesKey));
    if (types.size() != entries.size()) {
      return fail_at(std::string(kTypesKey), Code::kCorruptFile, "there are {} types for {} tokens", types.size(),
                     entries.size());
    }
    for (size_t i = 0; i < types.size(); ++i) {
      const bool known = types[i] >= 0 && types[i] <= static_cast<int64_t>(TokenType::kByte);
      out.types_[i] = known ? static_cast<TokenType>(types[i]) : TokenType::kUndefined;
    }
  }
  if (metadata.contains(kScoresKey)) {
    CAIRN_TRY(out.scores_, metadata.floats(kScoresKey));
    if (out.scores_.size() != entries.size()) {
      return fail_at(std::string(kScoresKey), Code::kCorruptFile, "there are {} scores for {} tokens",
                     out.scores_.size(), entries.size());
    }
    for (size_t i = 0; i < out.scores_.size(); ++i) {
      if (std::isnan(out.scores_[i])) {
        return fail_at(std::string(kScoresKey), Code::kCorruptFile, "the score of token {} is not a number", i);
      }
      out.scores_[i] = std::clamp(out.scores_[i], -1e9f, 1e9f);
    }
  }
  return out;
}

void Vocabulary::set_pieces(PieceStyle style) {
  pieces_.clear();
  piece_ends_.assign(1, 0);
  for (int32_t i = 0; i < size(); ++i) {
    const TokenId id{i};
    switch (type(id)) {
      case TokenType::kControl:
      case TokenType::kUnknown:
      case TokenType::kUserDefined:
        pieces_.append(entry(id));
        break;
      case TokenType::kNormal:
        if (style == PieceStyle::kByteLevel) {
          append_byte_level_decoded(pieces_, entry(id));
        } else {
          append_unescaped(pieces_, entry(id));
        }
        break;
      case TokenType::kByte:
        if (const int byte = byte_of_entry(entry(id)); byte >= 0) {
          pieces_ += static_cast<char>(byte);
        } else {
          pieces_.append(entry(id));
        }
        break;
      case TokenType::kUndefined:
      case TokenType::kUnused:
        break;  // these types have no text
    }
    piece_ends_.push_back(pieces_.size());
  }
}

}  // namespace cairn::tokenizer
