/// Unicode's normal form C, in which many vocabularies expect their texts.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

/// `text` in normal form C; `text` itself where it is so already, else a view of `scratch`. Text is UTF-8; what has
/// surrogates stays as it is from one ASCII character to the next. Time O(n).
std::string_view nfc(std::string_view text, std::string& scratch);

}  // namespace cairn
