#include "calibrate/watched_backend.h"

#include <cstddef>

namespace cairn::calibrate {

std::span<const float> WatchedBackend::read_rows(const float* x, int64_t values) {
  x_.resize(static_cast<size_t>(values));
  backend_->read(x, values * static_cast<int64_t>(sizeof(float)), x_.data());
  return x_;
}

void WatchedBackend::matmul(std::span<const kernels::MatmulTarget> products, const float* x, int32_t rows) {
  if (!products.empty() && rows > 0) {
    watcher_.see(products, read_rows(x, rows * products[0].weight->cols), rows);
  }
  backend_->matmul(products, x, rows);
}

void WatchedBackend::grouped_matmul(std::span<const kernels::MatmulTarget> products, const float* x, int32_t rows,
                                    const int32_t* ids, int32_t used, bool input_per_choice) {
  if (!products.empty() && rows > 0) {
    const int64_t choices = int64_t{rows} * used;
    ids_.resize(static_cast<size_t>(choices));
    backend_->read(ids, choices * static_cast<int64_t>(sizeof(int32_t)), ids_.data());
    const auto inputs = read_rows(x, (input_per_choice ? choices : rows) * products[0].weight->cols);
    watcher_.see_grouped(products, inputs, rows, ids_, used, input_per_choice);
  }
  backend_->grouped_matmul(products, x, rows, ids, used, input_per_choice);
}

}  // namespace cairn::calibrate
