/// Tokens as they come -> text as it can be shown: never half a character.
#pragma once

#include <span>
#include <string>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace cairn {

/// One stream of tokens. The text of all pushes and the flush together is decode() of all tokens with every ill-formed
/// part replaced by U+FFFD; each part alone is valid UTF-8.
class Detokenizer {
 public:
  /// `at_start`: the stream begins a text, so that a SentencePiece vocabulary drops its leading space. False for what
  /// continues a prompt.
  explicit Detokenizer(const Tokenizer& tokenizer, bool at_start = false, bool render_special = false);

  /// Text that became certain with this token; may be empty.
  std::string push(TokenId id);
  /// What is still held back, at the end of the stream.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  bool at_start_;
  bool render_special_;
  std::string held_;  // bytes of a character that is not complete yet
};

}  // namespace cairn
