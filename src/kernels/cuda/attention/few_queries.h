/// Attention of few queries to a KV head, as in decoding, for which the kernel of paged_attention.cu would wait most of
/// the time. Both compute the same bits.
#pragma once

#include "kernels/cuda/attention/call.cuh"

namespace cairn::kernels::cuda {

/// Starts `call`, whose tiling need not be set, or returns false if it is not a call for this kernel. `chunks`: maximum
/// number of chunks of a row, for which call.pieces has memory; 1 if blocks merge the chunks themselves.
bool start_few_queries(LaunchQueue& stream, AttentionCall call, const KvView& kv, int32_t chunks, int device);

}  // namespace cairn::kernels::cuda
