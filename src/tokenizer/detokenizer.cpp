#include "tokenizer/detokenizer.h"

#include <algorithm>
#include <utility>

#include "base/text/utf8.h"
#include "tokenizer/text/tidy_spaces.h"

namespace cairn::tokenizer {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool at_start, bool render_special)
    : tokenizer_(tokenizer),
      at_start_(at_start && tokenizer.drops_first_space()),
      tidies_(at_start && tokenizer.tidies_spaces()),
      render_special_(render_special) {}

std::string Detokenizer::push(TokenId id) {
  std::string_view piece = tokenizer_.piece(id, render_special_);
  // A hidden token does not count as the beginning of the text.
  if (at_start_ && (!piece.empty() || tokenizer_.piece(id, true).empty())) {
    at_start_ = false;
    if (piece.starts_with(' ')) piece.remove_prefix(1);
  }
  held_.append(piece);
  size_t hold = utf8_incomplete_suffix(held_);
  if (tidies_) hold = std::max(hold, tidy_spaces_pending(held_));
  return release(held_.size() - hold);
}

std::string Detokenizer::flush() { return release(held_.size()); }

std::string Detokenizer::release(size_t bytes) {
  std::string out = held_.substr(0, bytes);
  held_.erase(0, bytes);
  if (tidies_) out = tidy_spaces(out);
  return utf8_replace_invalid(out);
}

}  // namespace cairn::tokenizer
