/// The entries of a model's vocabulary: text, type, score, the bytes each stands for, and its part in a conversation.
/// Source: the tokenizer.ggml.* keys of the GGUF specification.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "gguf/reader.h"
#include "tokenizer/string_pool.h"

namespace cairn::tokenizer {

inline constexpr size_t kVocabularyTokensMax = 1 << 24;

/// Numbers as in tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// How an entry's text is converted to the bytes that it stands for.
enum class PieceStyle {
  kByteLevel,    ///< each character is a byte, see byte_level.h
  kEscapedSpace  ///< "▁" is a space, "<0x0A>" of type kByte a byte
};

/// Movable. Set up by load() and set_*(), then only read: thread-safe.
class Vocabulary {
 public:
  /// Errors: kCorruptFile (a key is missing, of another type, or arrays differ in length), kTooLarge.
  static Result<Vocabulary> load(const gguf::Metadata& metadata);

  int32_t size() const { return static_cast<int32_t>(text_of_.size()); }
  bool contains(TokenId id) const { return index(id) >= 0 && index(id) < size(); }

  // Only for ids that contains() accepts.
  std::string_view entry(TokenId id) const { return texts_.view(text_of_[index(id)]); }
  TokenType type(TokenId id) const { return types_[index(id)]; }
  /// Log-probability or the like; 0 where the file has none. Never NaN, between -1e9 and 1e9.
  float score(TokenId id) const { return scores_.empty() ? 0.0f : scores_[index(id)]; }
  bool has_scores() const { return !scores_.empty(); }
  /// Whether the file says which entries are control tokens; otherwise all are normal ones.
  bool has_types() const { return has_types_; }
  /// The bytes that the entry stands for; needs set_pieces().
  std::string_view piece(TokenId id) const {
    const size_t i = index(id);
    return std::string_view(pieces_).substr(piece_ends_[i], piece_ends_[i + 1] - piece_ends_[i]);
  }
  bool ends_generation(TokenId id) const { return marks_[index(id)] & kEndsGeneration; }
  bool strips_left(TokenId id) const { return marks_[index(id)] & kStripsLeft; }
  bool strips_right(TokenId id) const { return marks_[index(id)] & kStripsRight; }
  /// Whether it is a control token that is always shown, but found in a text only where control tokens are.
  bool shown_control(TokenId id) const { return marks_[index(id)] & kShownControl; }
  /// Whether it is a control or unknown token, which is shown only on request.
  bool hidden(TokenId id) const { return type(id) == TokenType::kControl || type(id) == TokenType::kUnknown; }
  /// Whether a text becomes this token only where control tokens are parsed.
  bool only_parsed(TokenId id) const { return hidden(id) || shown_control(id); }

  /// The first entry with this text; kNoToken if there is none. The empty text is never found.
  TokenId find(std::string_view entry) const {
    const uint32_t text = texts_.find(entry);
    return text == StringPool::kNone ? kNoToken : first_with_text_[text];
  }
  /// The token that a plain text may become: as find(), except for tokens that are only parsed.
  TokenId find_plain(std::string_view entry) const {
    const TokenId id = find(entry);
    return id == kNoToken || only_parsed(id) ? kNoToken : id;
  }
  size_t entry_bytes_max() const { return entry_bytes_max_; }

  void set_type(TokenId id, TokenType type) { types_[index(id)] = type; }
  void set_ends_generation(TokenId id, bool value) { set_mark(id, kEndsGeneration, value); }
  /// Whether white space before (after) the token in a text belongs to it.
  void set_strips_left(TokenId id, bool value) { set_mark(id, kStripsLeft, value); }
  void set_strips_right(TokenId id, bool value) { set_mark(id, kStripsRight, value); }
  void set_shown_control(TokenId id, bool value) { set_mark(id, kShownControl, value); }
  /// Called after all set_type().
  void set_pieces(PieceStyle style);

 private:
  enum : uint8_t { kEndsGeneration = 1, kStripsLeft = 2, kStripsRight = 4, kShownControl = 8 };
  void set_mark(TokenId id, uint8_t mark, bool value) {
    uint8_t& marks = marks_[index(id)];
    marks = static_cast<uint8_t>(value ? marks | mark : marks & ~mark);
  }

  StringPool texts_;
  std::vector<uint32_t> text_of_;         // [token]: index of its text in texts_; two tokens may share one
  std::vector<TokenId> first_with_text_;  // [text]
  std::vector<TokenType> types_;
  bool has_types_ = false;
  std::vector<float> scores_;  // empty if the file has none
  std::vector<uint8_t> marks_;
  std::string pieces_;
  std::vector<size_t> piece_ends_ = {0};
  size_t entry_bytes_max_ = 0;
};

inline constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // U+2581

/// `entry` with every "▁" written as a space, appended to `out`.
void append_unescaped(std::string& out, std::string_view entry);

/// "<0x0A>" -> 10; -1 for any other text.
int byte_of_entry(std::string_view entry);

}  // namespace cairn::tokenizer
