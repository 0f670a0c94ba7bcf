/// The clean-up that some vocabularies' own decoders make of a whole text: no space before . , ? ! nor before the
/// contractions 's 'm 're 've, and none around a lone apostrophe.
/// Source: `clean_up_tokenization_spaces` of published tokenizer configurations, as engines for GGUF files apply it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn::tokenizer {

std::string tidy_spaces(std::string_view text);

/// Number of bytes at the end of `text` that may change when more text follows. For a split before them, tidy_spaces(a
/// + b) == tidy_spaces(a) + tidy_spaces(b).
size_t tidy_spaces_pending(std::string_view text);

}  // namespace cairn::tokenizer
