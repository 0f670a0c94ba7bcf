/// Turns tokens, as they come, into text that can be shown: never an incomplete character.
#pragma once

#include <cstddef>
#include <string>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace cairn::tokenizer {

/// Detokenizes one stream. With `at_start`, the text of all pushes and the flush together is decode() of all tokens
/// with every ill-formed part replaced by U+FFFD; without, it is all pieces joined, with the same replacement. Each
/// part alone is valid UTF-8. Fewer than four bytes are held back, except for a run of spaces and apostrophes if whole
/// texts are tidied.
class Detokenizer {
 public:
  /// `at_start`: whether the stream is a text of its own, for which decode()'s rules for whole texts hold: a
  /// SentencePiece vocabulary drops its leading space, and some byte-level vocabularies tidy spaces. False for the
  /// continuation of a prompt, whose text is the pieces, byte for byte.
  explicit Detokenizer(const Tokenizer& tokenizer, bool at_start = false, bool render_special = false);

  /// Returns the text that became certain with this token; may be empty.
  std::string push(TokenId id);
  /// Returns what is still held back, at the end of the stream.
  std::string flush();

 private:
  // Releases the first `bytes` held bytes as valid text.
  std::string release(size_t bytes);

  const Tokenizer& tokenizer_;
  bool at_start_;  // whether the leading space is still to be dropped
  bool tidies_;
  bool render_special_;
  std::string held_;  // bytes of an incomplete character, or spaces that may have to be removed
};

}  // namespace cairn::tokenizer
