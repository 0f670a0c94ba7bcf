/// Patterns of names, as shells have them.
#pragma once

#include <string_view>

namespace cairn {

/// Whether the whole text fits the pattern, in which '*' stands for any bytes or none, '?' for one byte, and all other
/// bytes for themselves. Takes at most pattern times text steps, whatever both are.
bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace cairn
