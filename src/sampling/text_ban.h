/// Bans texts from an answer, whichever tokens spell them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace cairn::sampling {

inline constexpr size_t kBannedTextBytesMax = 256;

/// Immutable; thread-safe. Construction makes one pass over the vocabulary; use costs little per token.
class TextBan {
 public:
  /// `texts`: each of 1 to kBannedTextBytesMax bytes.
  TextBan(const tokenizer::Tokenizer& tokenizer, std::span<const std::string_view> texts);

  /// Number of bytes at the answer's end that next() needs.
  size_t tail_bytes() const { return tail_bytes_; }
  /// Appends the tokens that would complete one of the texts after an answer that ends with `tail`.
  void next(std::string_view tail, std::vector<TokenId>& banned) const;
  /// The same for one text of which `written` bytes have come. 0: tokens that contain all of it.
  std::span<const TokenId> completing(size_t text, size_t written) const { return texts_[text].completing[written]; }

 private:
  struct Text {
    std::string text;
    /// [i]: tokens that complete the text after its first i bytes. [0]: tokens that contain all of it.
    std::vector<std::vector<TokenId>> completing;
  };
  std::vector<Text> texts_;
  size_t tail_bytes_ = 0;
};

}  // namespace cairn::sampling
