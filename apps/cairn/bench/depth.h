/// `cairn bench model --depth`: measures how fast a model decodes far into a long context.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "load_flags.h"

namespace cairn {

/// Prints a line of JSON. One sequence, without an engine. The cache holds `depth` tokens, of which the first are
/// computed and the others are copies of their pages: a step reads as much as in a real conversation of that length,
/// but its output is noise.
Result<void> bench_depth(const LoadFlags& flags, int32_t depth, int32_t answer);

}  // namespace cairn
