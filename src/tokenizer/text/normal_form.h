/// Unicode's normal form C, in which many vocabularies expect their texts.
#pragma once

#include <string>
#include <string_view>

namespace cairn::tokenizer {

/// `text` in normal form C; `text` itself if it is in that form already, else a view of `scratch`. Text is UTF-8; a
/// stretch between two ASCII characters that contains surrogates is not changed. Takes O(n) time.
std::string_view nfc(std::string_view text, std::string& scratch);

}  // namespace cairn::tokenizer
