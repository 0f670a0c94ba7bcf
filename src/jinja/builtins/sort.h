/// A stable sort of values that stops at the first two that cannot be compared.
#pragma once

#include <cstddef>
#include <vector>

#include "jinja/value/value.h"

namespace cairn::jinja {

/// Indices of `keys` from the smallest key to the largest, or the reverse; equal keys keep their order in both.
Result<std::vector<size_t>> sorted_places(Budget& budget, const std::vector<Value>& keys, bool reverse);

}  // namespace cairn::jinja
