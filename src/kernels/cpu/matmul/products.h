/// Matrix products of the CPU backend: quantises or rounds the inputs, cuts the work into chunks of rows and tokens for
/// the threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_team.h"

namespace cairn::kernels::cpu {

/// Bytes from one expert's weights to the next one's.
int64_t expert_stride(const Weight& weight);
/// Decodes row `row` of a matrix (of expert 0), [weight.cols].
void decode_weight_row(const Weight& weight, int64_t row, float* out);

class Products {
 public:
  Products(const Isa& isa, ThreadTeam& team) : kernels_(*isa.matmul), team_(team) {}

  /// Implements Backend::reserve for matrix products.
  Result<void> reserve(const WorkspaceSizes& sizes);
  int64_t workspace_bytes(const WorkspaceSizes& sizes) const;
  void matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows);
  void grouped_matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows, const int32_t* ids,
                      int32_t used, bool input_per_choice);

 private:
  // The output rows of one projection: those of one expert, or all.
  struct Job {
    const MatmulTarget* projection = nullptr;
    const std::byte* weights = nullptr;
    const float* bias = nullptr;
    float scale = 1;                   // factor on the sums, before the bias
    const int32_t* outputs = nullptr;  // row indices of the output; null: 0, 1, ...
    int32_t tokens = 0;                // number of tokens
    bool packs = false;                // whether file rows are packed as they are multiplied
    int32_t tokens_at_once = 0;        // tokens of one call of a product
    int32_t chunk_tokens = 0;          // tokens of a chunk: all, or those of one call
    int64_t chunk_rows = 0;            // weight rows of a chunk
    int64_t chunk_begin = 0;           // number of chunks of the jobs before

    bool int8() const { return projection->weight->panels || packs; }
    int64_t row_chunks() const { return (projection->weight->rows + chunk_rows - 1) / chunk_rows; }
    /// Chunks are ordered by tokens, then by rows: all rows of some tokens, then of the next ones.
    int64_t chunk_end() const { return chunk_begin + row_chunks() * ((tokens + chunk_tokens - 1) / chunk_tokens); }
  };
  struct Range {
    int64_t begin;
    int64_t end;
  };

  static int64_t quantized_bytes(const WorkspaceSizes& sizes);
  int64_t rounded_bytes(const WorkspaceSizes& sizes) const;
  static int64_t order_bytes(const WorkspaceSizes& sizes);
  static int64_t jobs_max(const WorkspaceSizes& sizes);
  int64_t packed_bytes(const WorkspaceSizes& sizes) const;
  bool takes_rounded(const Weight& weight) const;
  void prepare(std::span<const MatmulTarget> projections, const float* x, int64_t rows);
  void add_job(const MatmulTarget& projection, int64_t expert, const int32_t* outputs, int32_t tokens);
  void run_jobs(const float* x, int32_t outputs_per_input);
  void run_chunk(const Job& job, int64_t chunk, const float* x, int32_t outputs_per_input, std::byte* packed) const;
  void run_rows(const Job& job, const std::byte* weights, Range rows, int64_t first_row, Range tokens, const float* x,
                int32_t outputs_per_input) const;

  const MatmulKernels& kernels_;
  ThreadTeam& team_;
  Scratch quantized_memory_;
  Scratch rounded_memory_;
  const std::byte* quantized_ = nullptr;  // the input of the current product, as int8 rows
  const std::byte* rounded_ = nullptr;    // the same as rows of bfloat16
  Scratch order_;                         // int32: outputs of grouped_matmul, by expert
  Scratch packed_;                        // panels of each thread, for jobs that pack
  std::vector<Job> jobs_;
  double total_ns_ = 0;  // estimated time of the jobs
};

}  // namespace cairn::kernels::cpu
