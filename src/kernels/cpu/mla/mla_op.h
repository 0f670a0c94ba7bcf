/// MlaOperations of the CPU backend. kv_page.h has the layout of rows in pages.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/mla/indexer_topk.h"
#include "kernels/cpu/mla/mla_attention.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/mla_operations.h"

namespace cairn::kernels::cpu {

class MlaOp final : public MlaOperations {
 public:
  MlaOp(const Isa& isa, ThreadTeam& team)
      : kernels_(*isa.rows), team_(team), attention_(*isa.attention, team), chooser_(*isa.attention, team) {}

  Result<void> reserve(const MlaSizes& sizes);
  int64_t workspace_bytes(const MlaSizes& sizes) const {
    return attention_.workspace_bytes(sizes) + chooser_.workspace_bytes(sizes);
  }
  void store_rows(const KvView& kv, std::span<const AttentionSlice> slices, const float* x) override;
  void load_previous_rows(const KvView& kv, std::span<const AttentionSlice> slices, float* out) override;
  void select_topk(const ChooseParams& params, const KvView& keys, std::span<const AttentionSlice> slices,
                   const float* q, const float* weights, int32_t* chosen) override {
    chooser_.choose(params, keys, slices, q, weights, chosen);
  }
  void attend_rows(const RowAttentionParams& params, std::span<const RowSource> sources, const float* q,
                   float* out) override {
    attention_.attend(params, sources, q, out);
  }

 private:
  void store_row(const KvView& kv, const float* x, std::byte* to) const;

  const RowKernels& kernels_;
  ThreadTeam& team_;
  MlaAttention attention_;
  IndexerTopK chooser_;
};

}  // namespace cairn::kernels::cpu
