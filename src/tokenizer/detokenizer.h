/// Tokens as they come -> text as it can be shown: never half a character.
#pragma once

#include <cstddef>
#include <string>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace cairn {

/// One stream of tokens. With `at_start`, the text of all pushes and the flush together is decode() of all tokens with
/// every ill-formed part replaced by U+FFFD; without, it is all pieces joined, treated alike. Each part alone is valid
/// UTF-8. Less than four bytes are held back, but for a run of spaces and apostrophes where a whole text is tidied.
class Detokenizer {
 public:
  /// `at_start`: the stream is a text of its own, and decode()'s rules for whole texts hold: a SentencePiece vocabulary
  /// drops its leading space, and some byte-level vocabularies tidy spaces. False for what continues a prompt: then
  /// the text is the pieces, byte for byte.
  explicit Detokenizer(const Tokenizer& tokenizer, bool at_start = false, bool render_special = false);

  /// Text that became certain with this token; may be empty.
  std::string push(TokenId id);
  /// What is still held back, at the end of the stream.
  std::string flush();

 private:
  // The first `bytes` of what is held, made presentable.
  std::string release(size_t bytes);

  const Tokenizer& tokenizer_;
  bool at_start_;  // the leading space is still to be dropped
  bool tidies_;
  bool render_special_;
  std::string held_;  // bytes of a character that is not complete yet, or spaces that may have to go
};

}  // namespace cairn
