/// How alike two names are, for hints about names that are not known.
#pragma once

#include <cstddef>
#include <string_view>

namespace cairn {

/// Characters to insert, delete or replace that make one text of the other (Levenshtein 1966). Time and memory grow
/// with the product of both lengths: the caller bounds them.
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace cairn
