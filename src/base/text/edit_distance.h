/// How many edits make one text of another.
#pragma once

#include <cstddef>
#include <string_view>

namespace cairn {

/// Characters to insert, delete, replace, or swap with their neighbour that make one text of the other (optimal string
/// alignment: Damerau 1964, no part edited twice). Time and memory grow with the product of both lengths: the caller
/// bounds them. For hints about unknown names: nearest.h.
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace cairn
