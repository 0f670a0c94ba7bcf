#include "kernels/cuda/mla/mla_operations.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/kernels.h"

namespace cairn::kernels::cuda {
namespace {

int64_t scratch_bytes(const MlaSizes& sizes) {
  if (sizes.row_dim == 0) return 0;
  const int64_t attend = attend_rows_scratch_bytes(sizes.rows, sizes.heads, sizes.row_dim);
  return sizes.choose_heads == 0 ? attend : std::max(attend, choose_rows_scratch_bytes(sizes.context_tokens));
}

// Number of queries of the slices before a run, which may begin within a batch.
int64_t queries_before(std::span<const AttentionSlice> slices, const BatchMetadata::Run& run) {
  return run.first - slices.front().row_begin;
}

}  // namespace

Result<void> CudaMla::reserve(const WorkspaceSizes& sizes) {
  const MlaSizes& mla = sizes.mla;
  is_used_ |= mla.row_dim > 0;
  if (!is_used_) return {};
  if (mla.row_dim > kHeadDimMax) {
    return fail(Code::kUnsupported, "rows of {} elements: attention on the GPU has at most {}; use --gpu-layers 0",
                mla.row_dim, kHeadDimMax);
  }
  if (mla.choose_heads > 0 && !can_choose(mla.choose_heads, mla.choose_dim)) {
    return fail(Code::kUnsupported,
                "an index of {} heads of {} elements is too large for the GPU's shared memory; use --gpu-layers 0",
                mla.choose_heads, mla.choose_dim);
  }
  CAIRN_TRY_VOID(second_places_.reserve_like(stream_, places_));
  return grow(stream_, scratch_bytes(mla), scratch_);
}

int64_t CudaMla::workspace_bytes(const WorkspaceSizes& sizes) {
  if (sizes.mla.row_dim == 0) return 0;
  return BatchMetadata::bytes(sizes) + scratch_bytes(sizes.mla);
}

void CudaMla::store_rows(const KvView& kv, std::span<const AttentionSlice> slices, const float* x) {
  BatchMetadata::Run run;
  for (places_.begin(slices); places_.next(stream_, arguments_, run);) {
    const int64_t before = BatchMetadata::completed(slices, run.first, kv.tokens_per_row);
    cuda::store_rows(stream_.launches(), kv, run.rows, x + before * kv.key_dim);
    stream_.launched("store_rows");
  }
}

void CudaMla::load_previous_rows(const KvView& kv, std::span<const AttentionSlice> slices, float* out) {
  BatchMetadata::Run run;
  for (places_.begin(slices); places_.next(stream_, arguments_, run);) {
    const int64_t before = queries_before(slices, run);
    cuda::load_previous_rows(stream_.launches(), kv, run.rows, out + before * kv.key_dim);
    stream_.launched("load_previous_rows");
  }
}

void CudaMla::select_topk(const ChooseParams& params, const KvView& keys, std::span<const AttentionSlice> slices,
                          const float* q, const float* weights, int32_t* chosen) {
  BatchMetadata::Run run;
  for (places_.begin(slices); places_.next(stream_, arguments_, run);) {
    const int64_t queries = queries_before(slices, run), before = queries * params.heads;
    ChooseParams own = params;
    if (own.candidates.rows > 0) own.candidates.blocks += queries * own.candidates.most;
    cuda::select_topk(stream_.launches(), own, keys, run.rows, q + before * keys.key_dim, weights + before,
                      scratch_.data(), chosen + queries * params.most);
    stream_.launched("select_topk");
  }
}

void CudaMla::attend_rows(const RowAttentionParams& params, std::span<const RowSource> sources, const float* q,
                          float* out) {
  CAIRN_DCHECK(!sources.empty() && sources.size() <= kRowSourcesMax);
  BatchMetadata* const places[kRowSourcesMax] = {&places_, &second_places_};
  for (size_t s = 0; s < sources.size(); ++s) places[s]->begin(sources[s].slices);
  std::array<BatchMetadata::Run, kRowSourcesMax> runs;
  while (places_.next(stream_, arguments_, runs[0])) {
    const int64_t queries = queries_before(sources[0].slices, runs[0]);
    std::array<LatentSource, kRowSourcesMax> there;
    for (size_t s = 0; s < sources.size(); ++s) {
      // Both end their runs at the same rows, since a sequence has as many pages in every group.
      if (s > 0) CAIRN_CHECK(places[s]->next(stream_, arguments_, runs[s]) && runs[s].first == runs[0].first);
      const RowSource& source = sources[s];
      there[s] = {source.kv, runs[s].rows, source.window, source.chosen, source.chosen_max};
      if (source.chosen != nullptr) there[s].chosen += queries * source.chosen_max;
    }
    const int64_t before = queries * params.heads;
    cuda::attend_rows(stream_.launches(), params, std::span(there).first(sources.size()),
                      q + before * sources[0].kv.key_dim, scratch_.data(), out + before * params.value_dim);
    stream_.launched("attend_rows");
  }
}

}  // namespace cairn::kernels::cuda
