/// Bans texts from an answer, whichever tokens spell them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace cairn::sampling {

inline constexpr size_t kBannedTextBytesMax = 256;
/// A request bans at most so many texts, with so many bytes together. This bounds what a token costs: next() compares
/// each byte of them.
inline constexpr size_t kBannedTextsMax = 256;
inline constexpr size_t kBannedTextsBytesMax = 8'192;

/// Immutable; thread-safe. Construction makes one pass over the vocabulary, whose time and lists grow with the bytes of
/// its tokens, hardly with the texts; use costs little per token.
class TextBan {
 public:
  /// `texts`: each of 1 to kBannedTextBytesMax bytes.
  TextBan(const tokenizer::Tokenizer& tokenizer, std::span<const std::string_view> texts);

  /// Number of bytes at the answer's end that next() needs.
  size_t tail_bytes() const { return tail_bytes_; }
  /// Appends the tokens that would complete one of the texts after an answer that ends with `tail`.
  void next(std::string_view tail, std::vector<TokenId>& banned) const;
  /// The same without tokens that contain all of a text, which are banned wherever they come.
  void next_completing(std::string_view tail, std::vector<TokenId>& banned) const;
  /// Calls visit(token) for each of those, of some more than once.
  template <class Visit>
  void each_containing(Visit visit) const {
    for (size_t text = 0; text < texts_.size(); ++text)
      for (const TokenId token : completing(text, 0)) visit(token);
  }
  /// The tokens that complete one text of which `written` bytes have come. 0: those that contain all of it.
  std::span<const TokenId> completing(size_t text, size_t written) const {
    return lists_[texts_[text].completing[written]];
  }

 private:
  struct Text {
    std::string text;
    /// [i]: the list of tokens that complete the text after its first i bytes. [0]: of those that contain all of it.
    std::vector<uint32_t> completing;
  };
  std::vector<Text> texts_;
  std::vector<std::vector<TokenId>> lists_;  // one for each text, and for each ending of texts, which they may share
  size_t tail_bytes_ = 0;
};

}  // namespace cairn::sampling
