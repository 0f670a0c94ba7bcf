#include "engine/row_draws.h"

#include <algorithm>

namespace cairn {

const Drawn* RowDraws::of(int64_t row) const {
  const auto at = std::ranges::lower_bound(draws_, row, {}, &Draw::row);
  return at == draws_.end() || at->row != row ? nullptr : &drawn_[static_cast<size_t>(at - draws_.begin())];
}

}  // namespace cairn
