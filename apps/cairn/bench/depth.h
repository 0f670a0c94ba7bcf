/// `cairn bench model --depth`: how fast a model writes far into a long context.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "load_flags.h"

namespace cairn {

/// Prints a line of JSON. One sequence, without an engine. The cache holds `depth` tokens, of which the first are
/// computed and the others copies of their pages: what is read for a token, and how much, is as in a conversation of
/// that length; what is written is noise.
Result<void> bench_depth(const LoadFlags& flags, int32_t depth, int32_t answer);

}  // namespace cairn
