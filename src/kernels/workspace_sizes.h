/// What the operations of a model need at most, beside their operands. Part of the interface of kernels/backend.h.
#pragma once

#include <cstdint>
#include <vector>

namespace cairn::kernels {

/// What MlaOperations need. row_dim 0: none is called.
struct MlaSizes {
  int64_t rows = 0;  ///< of a call, and heads of attend_rows()
  int32_t heads = 0;
  int32_t context_tokens = 0;
  int32_t row_dim = 0;
  int32_t choose_heads = 0;  ///< 0: select_topk() is not called
  int32_t choose_dim = 0;
};

struct WorkspaceSizes {
  /// What a matrix product reads: rows, or with `input_per_choice` one for each choice.
  struct Input {
    int64_t rows = 0;
    int64_t cols = 0;
  };
  std::vector<Input> inputs;
  int64_t expert_choices = 0;  ///< of grouped_matmul, in all rows together; 0: it is not called
  int64_t experts = 0;         ///< matrices that they choose from
  int32_t routed_experts = 0;  ///< of route; 0: it is not called
  int32_t route_groups = 0;
  int64_t attention_rows = 0;  ///< of attention, and its heads; 0: it is not called
  int32_t attention_heads = 0;
  int32_t head_dim = 0;          ///< of keys or values
  int32_t attention_tokens = 0;  ///< positions that a row sees, and of a call of rope_table
  int64_t sample_rows = 0;       ///< of a call of sample; 0: it is not called
  MlaSizes mla;
};

}  // namespace cairn::kernels
