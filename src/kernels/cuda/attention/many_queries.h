/// Attention of many queries to a KV head, as in the steps of a prompt, with scores and sums in registers. Computes the
/// same bits as few_queries.cu.
#pragma once

#include "kernels/cuda/attention/call.cuh"

namespace cairn::kernels::cuda {

/// Starts `call`, of whose tiling only the group need be set, or returns false if keys and values are not for the
/// tensor cores, values are too wide for registers or nothing fits into shared memory. `chunks` as in
/// start_few_queries().
bool start_many_queries(LaunchQueue& stream, AttentionCall call, const KvView& kv, int32_t chunks, int device);

}  // namespace cairn::kernels::cuda
