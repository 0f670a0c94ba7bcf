/// The character normalisation that a SentencePiece unigram vocabulary carries (tokenizer.ggml.precompiled_charsmap):
/// the longest known prefix of a text is replaced. Source: sentencepiece's precompiled normalisation rules
/// (Apache-2.0): a little-endian u32 with the byte length of a double-array trie in Darts-clone's format, the trie's
/// units, and zero-ended replacement texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cairn::tokenizer {

class Charsmap {
 public:
  /// Longer keys and replacements are ignored: published maps stay below 40 bytes in both.
  static constexpr size_t kPrefixBytesMax = 256;
  static constexpr size_t kReplacementBytesMax = 256;

  /// A map that replaces nothing.
  Charsmap() = default;
  /// Errors: kCorruptFile (lengths that do not fit). Units that point out of range match nothing.
  static Result<Charsmap> parse(std::span<const std::byte> bytes);

  struct Match {
    size_t length = 0;  ///< bytes of `text` to replace; 0: no key matches
    std::string_view replacement;
  };
  Match longest(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace cairn::tokenizer
