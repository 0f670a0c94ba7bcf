#include "kernels/low_rank.h"

#include "kernels/backend.h"

namespace cairn {

void add_low_rank(Backend& backend, std::span<const MatmulTarget> projections, const float* x, int32_t rows) {
  for (const MatmulTarget& target : projections) {
    for (const LowRank& adapter : target.adapters) {
      const MatmulTarget low[] = {{.weight = &adapter.a, .out = adapter.scratch->low.floats()}};
      const MatmulTarget added[] = {{.weight = &adapter.b, .out = adapter.scratch->added.floats()}};
      backend.matmul(low, x, rows);
      backend.matmul(added, low[0].out, rows);
      backend.add(target.out, added[0].out, rows * adapter.b.rows, adapter.scale);
    }
  }
}

void add_low_rank_of_experts(Backend& backend, std::span<const MatmulTarget> projections, const float* x, int32_t rows,
                             const int32_t* ids, int32_t used, bool input_per_choice) {
  for (const MatmulTarget& target : projections) {
    for (const LowRank& adapter : target.adapters) {
      const MatmulTarget low[] = {{.weight = &adapter.a, .out = adapter.scratch->low.floats()}};
      const MatmulTarget added[] = {{.weight = &adapter.b, .out = adapter.scratch->added.floats()}};
      backend.grouped_matmul(low, x, rows, ids, used, input_per_choice);
      backend.grouped_matmul(added, low[0].out, rows, ids, used, true);
      backend.add(target.out, added[0].out, int64_t{rows} * used * adapter.b.rows, adapter.scale);
    }
  }
}

}  // namespace cairn
