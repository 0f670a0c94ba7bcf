#include "engine/output/sample_batch.h"

#include <algorithm>

namespace cairn::engine {

const kernels::SampleResult* SampleBatch::of(int64_t row) const {
  const auto at = std::ranges::lower_bound(samples_, row, {}, &kernels::SampleRequest::row);
  return at == samples_.end() || at->row != row ? nullptr : &sampled_[static_cast<size_t>(at - samples_.begin())];
}

}  // namespace cairn::engine
