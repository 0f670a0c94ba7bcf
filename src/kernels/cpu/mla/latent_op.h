/// LatentOperations of the CPU backend. How rows lie in pages: kv_page.h.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/mla/row_attention.h"
#include "kernels/cpu/mla/row_chooser.h"
#include "kernels/cpu/team.h"
#include "kernels/latent_operations.h"

namespace cairn::cpu {

class LatentOp final : public LatentOperations {
 public:
  LatentOp(const Isa& isa, Team& team)
      : kernels_(*isa.rows), team_(team), attention_(*isa.attention, team), chooser_(*isa.attention, team) {}

  Result<void> reserve(const LatentSizes& sizes);
  int64_t reserve_bytes(const LatentSizes& sizes) const {
    return attention_.reserve_bytes(sizes) + chooser_.reserve_bytes(sizes);
  }
  void store_rows(const KvView& kv, std::span<const AttentionSlice> slices, const float* x) override;
  void load_previous_rows(const KvView& kv, std::span<const AttentionSlice> slices, float* out) override;
  void choose_rows(const ChooseParams& params, const KvView& keys, std::span<const AttentionSlice> slices,
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
  Team& team_;
  RowAttention attention_;
  RowChooser chooser_;
};

}  // namespace cairn::cpu
