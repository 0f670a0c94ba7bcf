/// A stable order of values that stops at the first two that have none.
#pragma once

#include <cstddef>
#include <vector>

#include "jinja/value/value.h"

namespace cairn::jinja {

/// Places of `keys` from the smallest key to the largest, or the other way; equal keys keep their order in both.
Result<std::vector<size_t>> sorted_places(Budget& budget, const std::vector<Value>& keys, bool reverse);

}  // namespace cairn::jinja
