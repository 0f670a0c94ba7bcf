/// How wide text is on a terminal, and where its characters, as a reader counts them, begin.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn::terminal {

/// Columns of a character: 2 of East Asian wide ones and emoji, 0 of marks that join the character before.
int char_width(char32_t value);
/// Columns of a text that has no control characters.
int text_width(std::string_view text);

/// Where the grapheme cluster that begins at `at` ends; text.size() at the end. The text is well-formed UTF-8.
size_t next_cluster(std::string_view text, size_t at);
/// Where the grapheme cluster that ends at `at` begins; 0 at the beginning.
size_t previous_cluster(std::string_view text, size_t at);

/// The text as a terminal may have it: control characters other than line feeds and tabs are shown by name ("^[",
/// "\x9b"), as are those that turn the direction of writing, so that no text moves the cursor or changes what stands
/// on the screen already.
std::string harmless(std::string_view text);

}  // namespace cairn::terminal
