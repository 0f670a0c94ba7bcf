/// Texts of control tokens, such as <|im_end|>, that stand in what somebody has written: they are text there, and must
/// not become the token that they spell, or a file that an agent reads could end its turn and speak in another's name.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/tokenizer.h"
#include "tokenizer/trie.h"

namespace cairn {

/// Immutable; thread-safe.
class ControlTexts {
 public:
  explicit ControlTexts(const Tokenizer& tokenizer);

  /// The text with guard() put into every control token's text that it holds. Once the text stands in a prompt, what is
  /// between two guards is to be encoded by itself. Time O(n), in rare texts times the length of a control token.
  std::string guarded(std::string_view text) const;
  /// Something that no text holds by chance.
  static std::string_view guard();

 private:
  Trie trie_;  // of one byte or more
};

}  // namespace cairn
