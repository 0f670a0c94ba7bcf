/// Sampling of tokens from rows of logits: a block of threads for each row.
///
/// Candidates are ordered by logit, the most likely first, and of equal logits the lower token first. top-k, top-p and
/// min-p keep a prefix of that order, so the row's most likely candidates are gathered and sorted, and the rest is
/// prefix sums over them. With min-p alone or no filter nothing is sorted, and tokens are in the order of their ids.
/// Weights are integers, in units of 2^-44 of the largest one, so their sums do not depend on the order in which
/// threads add them. What is taken from all of a row's logits as the model gave them, many blocks have found before
/// (row_parts.h).
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/sampling/logits.cuh"
#include "kernels/cuda/sampling/row_parts.h"

namespace cairn::kernels::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarp;
// Maximum number of sorted candidates. The filters nearly always keep fewer with real models.
constexpr int32_t kListMax = 4096;
constexpr int32_t kOfThread = kListMax / kThreads;
static_assert(kCandidateBins == kThreads);

struct Row {
  const float* logits = nullptr;
  int32_t count = 0;
  float largest = 0;  // finite
  // RowParts's sums of the row. Null if it has been changed.
  const uint64_t* plain = nullptr;
  const uint64_t* drawn = nullptr;
  const int32_t* bins = nullptr;

  // Calls f(logit, token) for the thread's share of the tokens.
  template <class F>
  __device__ void for_each(F f) const {
    for_logits(logits, 0, count, static_cast<int32_t>(threadIdx.x), kThreads, f);
  }
};

struct List {
  Key keys[kListMax];  // sorted, followed by kNoKey
  int32_t counts[kCandidateBins];
  int32_t bins = 0;  // number of bins that are taken as a whole
  int32_t count = 0;
  bool complete = false;  // whether the list holds the whole row
};

__device__ uint64_t warp_prefix(uint64_t own) {
#pragma unroll
  for (int apart = 1; apart < kWarp; apart *= 2) {
    const uint64_t other = __shfl_up_sync(kAllLanes, own, apart);
    if (own_lane() >= apart) own += other;
  }
  return own;
}

// Block-wide prefix sums: of the threads before the own one, and of all.
struct Sums {
  uint64_t before = 0;
  uint64_t total = 0;
};
__device__ Sums block_sums(uint64_t own) {
  __shared__ uint64_t of_warps[kWarps];
  const uint64_t upto = warp_prefix(own);
  __syncthreads();  // the sums before these have been read
  if (own_lane() == kWarp - 1) of_warps[own_warp()] = upto;
  __syncthreads();
  Sums sums{upto - own, 0};
  for (int w = 0; w < kWarps; ++w) {
    if (w < own_warp()) sums.before += of_warps[w];
    sums.total += of_warps[w];
  }
  return sums;
}

__device__ Key most_likely(const float* logits, int32_t count) {
  __shared__ Key of_warps[kWarps];
  MostLikely own;
  Row{logits, count}.for_each([&](float logit, int32_t token) { own(logit, token); });
  const Key of_warp = warp_min(own.key());
  if (own_lane() == 0) of_warps[own_warp()] = of_warp;
  __syncthreads();
  return warp_min(of_warps[own_lane()]);
}

// The lane's entry of `values`, which has one for each part of a row; zero in lanes beyond the last part.
__device__ uint64_t of_own_part(const uint64_t* values, const Row& row) {
  return own_lane() < part_count(row.count) ? values[own_lane()] : 0;
}

__device__ uint64_t weight_of_all(const Row& row) {
  if (row.plain != nullptr) return warp_total(of_own_part(row.plain, row));
  uint64_t own = 0;
  row.for_each([&](float logit, int32_t) { own += weight_of(logit, row.largest, 1); });
  return block_sums(own).total;
}

__device__ void sort(List& list) {
  int32_t size = kWarp;
  while (size < list.count) size *= 2;
  for (int32_t i = list.count + static_cast<int32_t>(threadIdx.x); i < size; i += kThreads) list.keys[i] = kNoKey;
  __syncthreads();
  // Bitonic sort: runs of length `run` are sorted, alternately ascending and descending.
  for (int32_t run = 2; run <= size; run *= 2) {
    for (int32_t apart = run / 2; apart > 0; apart /= 2) {
      for (int32_t pair = threadIdx.x; pair < size / 2; pair += kThreads) {
        const int32_t first = 2 * pair - (pair & (apart - 1)), second = first + apart;
        const Key a = list.keys[first], b = list.keys[second];
        if ((a > b) == ((first & run) == 0)) list.keys[first] = b, list.keys[second] = a;
      }
      __syncthreads();
    }
  }
}

// The number of candidates in the thread's bin.
__device__ int32_t count_of_bin(const Row& row, List& list) {
  if (row.bins != nullptr) return row.bins[threadIdx.x];
  list.counts[threadIdx.x] = 0;
  __syncthreads();
  row.for_each([&](float logit, int32_t) {
    if (logit > -INFINITY) atomicAdd(list.counts + bin_of(row.largest, logit), 1);
  });
  __syncthreads();
  return list.counts[threadIdx.x];
}

// Gathers the row's most likely candidates: at least `wanted`, if that many exist and fit.
__device__ void gather(const Row& row, int32_t wanted, List& list) {
  __syncthreads();  // the list before has been read
  if (threadIdx.x == 0) list.bins = list.count = 0;
  __syncthreads();
  const auto own = static_cast<uint64_t>(count_of_bin(row, list));
  const Sums sums = block_sums(own);
  // True for the first bins and no others.
  if (sums.before < static_cast<uint64_t>(wanted) && sums.before + own <= kListMax) atomicAdd(&list.bins, 1);
  __syncthreads();
  const int32_t bins = list.bins;
  row.for_each([&](float logit, int32_t token) {
    if (!(logit > -INFINITY) || bin_of(row.largest, logit) >= bins) return;
    list.keys[atomicAdd(&list.count, 1)] = key_of(logit, token);
  });
  __syncthreads();
  if (threadIdx.x == 0) list.complete = static_cast<uint64_t>(list.count) == sums.total;
  sort(list);
}

// The sum of weights that the first candidate beyond that share of the total exceeds.
__device__ uint64_t beyond(double share, uint64_t total) {
  const auto reached = static_cast<uint64_t>(share * static_cast<double>(total));
  return (reached < total ? reached : total - 1) + 1;
}
// The sum of weights that the first candidate with at least that share of the total reaches.
__device__ uint64_t at_least(double share, uint64_t total) {
  const double wanted = ceil(share * static_cast<double>(total));
  const auto whole = static_cast<uint64_t>(wanted > 1 ? wanted : 1);
  return whole < total ? whole : total;
}

// Index of the first of the list's first `kept` candidates at which the sum of weights reaches goal_of(their sum);
// `kept` if there is none.
template <class GoalOf>
__device__ int32_t first_reaching(const List& list, int32_t kept, const Row& row, float temperature, GoalOf goal_of) {
  __shared__ int32_t found;
  const int32_t begin = static_cast<int32_t>(threadIdx.x) * kOfThread;
  uint64_t weights[kOfThread];
  uint64_t own = 0;
#pragma unroll
  for (int32_t i = 0; i < kOfThread; ++i) {
    weights[i] = begin + i < kept ? weight_of(logit_of(list.keys[begin + i]), row.largest, temperature) : 0;
    own += weights[i];
  }
  Sums sums = block_sums(own);
  if (threadIdx.x == 0) found = kept;
  __syncthreads();
  const uint64_t goal = goal_of(sums.total);
#pragma unroll
  for (int32_t i = 0; i < kOfThread; ++i) {
    if (sums.before < goal && goal <= sums.before + weights[i]) found = begin + i;
    sums.before += weights[i];
  }
  __syncthreads();
  return found;
}

// How many of the first `kept` candidates are not below the bound.
__device__ int32_t count_at_least(const List& list, int32_t kept, double bound) {
  uint64_t own = 0;
  for (int32_t i = threadIdx.x; i < kept; i += kThreads) own += logit_of(list.keys[i]) >= bound ? 1 : 0;
  return static_cast<int32_t>(block_sums(own).total);
}

// How many of the list's first candidates the filters keep; 0 if the list is too short to tell.
__device__ int32_t keep(const SampleRequest& request, const Row& row, const List& list) {
  const bool by_rank = request.top_k > 0 && request.top_k < row.count;
  int32_t kept = list.count;
  bool whole = list.complete;  // no candidates outside the list are kept
  if (by_rank) {
    if (request.top_k > kept && !whole) return 0;
    kept = request.top_k < kept ? request.top_k : kept;
    whole = true;
  }
  if (request.top_p < 1) {
    const uint64_t total = by_rank ? 0 : weight_of_all(row);
    const int32_t last = first_reaching(
        list, kept, row, 1, [&](uint64_t of_list) { return at_least(request.top_p, by_rank ? of_list : total); });
    if (last < kept) {
      kept = last + 1;
      whole = true;
    }
  }
  if (request.min_logit_offset > -INFINITY) {
    const int32_t top = count_at_least(list, kept, static_cast<double>(row.largest) + request.min_logit_offset);
    whole = whole || top < kept;
    kept = top;
  }
  return whole ? kept : 0;
}

// The sum of weights of the part of a row that has the number of the own lane, in each warp.
template <class WeightAt>
__device__ uint64_t weight_of_part(const Row& row, WeightAt weight_at) {
  if (row.drawn != nullptr) return of_own_part(row.drawn, row);
  static_assert(kWarps == kRowParts);
  __shared__ uint64_t of_warps[kWarps];
  const int32_t part = part_tokens(row.count);
  const int32_t begin = min(own_warp() * part, row.count), end = min(begin + part, row.count);
  uint64_t own = 0;
  for_logits(row.logits, begin, end, own_lane(), kWarp, [&](float logit, int32_t) { own += weight_at(logit); });
  own = warp_total(own);
  if (own_lane() == 0) of_warps[own_warp()] = own;
  __syncthreads();
  return of_warps[own_lane()];
}

// Samples from all tokens whose logits are not below the bound.
__device__ int32_t sample_in_token_order(const SampleRequest& request, const Row& row) {
  __shared__ int32_t token;
  const double bound = static_cast<double>(row.largest) + request.min_logit_offset;
  const auto weight_at = [&](float logit) {
    return logit >= bound ? weight_of(logit, row.largest, request.temperature) : 0;
  };
  // The part that has the token, found by each warp.
  const uint64_t of_part = weight_of_part(row, weight_at);
  const uint64_t upto = warp_prefix(of_part);
  const uint64_t goal = beyond(request.random, __shfl_sync(kAllLanes, upto, kWarp - 1));
  const int32_t part = __ffs(static_cast<int>(__ballot_sync(kAllLanes, upto >= goal))) - 1;
  const uint64_t before_part = __shfl_sync(kAllLanes, upto - of_part, part);

  // Each thread has some consecutive tokens of the part.
  const int32_t tokens = part_tokens(row.count), each = (tokens + kThreads - 1) / kThreads;
  const int32_t part_end = min((part + 1) * tokens, row.count);
  const int32_t begin = min(part * tokens + static_cast<int32_t>(threadIdx.x) * each, part_end);
  const int32_t end = min(begin + each, part_end);
  uint64_t own = 0;
#pragma unroll 4
  for (int32_t i = begin; i < end; ++i) own += weight_at(row.logits[i]);
  uint64_t before = before_part + block_sums(own).before;
  if (before < goal && goal <= before + own) {
    int32_t i = begin;
    for (; before + weight_at(row.logits[i]) < goal; ++i) before += weight_at(row.logits[i]);
    token = i;
  }
  __syncthreads();
  return token;
}

__device__ int32_t choose(const SampleRequest& request, const Row& row, Key first, List& list) {
  if (request.temperature == 0) return token_of(first);
  const bool by_rank = request.top_k > 0 && request.top_k < row.count;
  if (!by_rank && request.top_p >= 1) return sample_in_token_order(request, row);
  gather(row, by_rank && request.top_k < kListMax ? request.top_k : kListMax, list);
  const int32_t kept = keep(request, row, list);
  if (kept == 0) return SampleResult::kNeedsHost;
  const int32_t at = first_reaching(list, kept, row, request.temperature,
                                    [&](uint64_t total) { return beyond(request.random, total); });
  return token_of(list.keys[at]);
}

// Computes log-probabilities from the unfiltered row; false if the device leaves the row to the host.
__device__ bool report(const SampleRequest& request, const Row& row, List& list, SampleResult& out) {
  const uint64_t sum = weight_of_all(row);
  int32_t count = 0;
  if (request.top_logprobs > 0) {
    gather(row, request.top_logprobs, list);
    if (list.count < request.top_logprobs && !list.complete) return false;
    count = min(request.top_logprobs, list.count);
    const int32_t i = threadIdx.x;
    if (i < count) out.top[i] = {token_of(list.keys[i]), logit_of(list.keys[i])};
  }
  if (threadIdx.x == 0) {
    out.sum = static_cast<double>(sum) / kWeightOne;
    out.largest = row.largest;
    out.top_logprobs = count;
  }
  return true;
}

struct Call {
  float* logits = nullptr;  // [rows, vocabulary]
  int64_t vocabulary = 0;
  const SampleRequest* samples = nullptr;
  RowParts parts;
  const LogitChange* changes = nullptr;
  int32_t first_change = 0;  // index of the first change
  float* changed = nullptr;  // logits before the changes
  SampleResult* sampled = nullptr;
};

// Applies the changes of logits. A token may be changed by a bias, a penalty and a ban, in this order.
__device__ void change(const SampleRequest& request, const LogitChange* changes, float* logits, float* before) {
  for (int32_t i = threadIdx.x; i < request.change_count(); i += kThreads) before[i] = logits[changes[i].token];
  __syncthreads();
  for (int32_t i = threadIdx.x; i < request.biases; i += kThreads) {
    logits[changes[i].token] = __fadd_rn(logits[changes[i].token], changes[i].value);
  }
  __syncthreads();
  changes += request.biases;
  for (int32_t i = threadIdx.x; i < request.penalties; i += kThreads) {
    float& logit = logits[changes[i].token];
    const float divided = logit > 0 ? __fdiv_rn(logit, request.repetition) : __fmul_rn(logit, request.repetition);
    logit = __fsub_rn(divided, changes[i].value);
  }
  __syncthreads();
  changes += request.penalties;
  for (int32_t i = threadIdx.x; i < request.masked; i += kThreads) logits[changes[i].token] = -INFINITY;
  __syncthreads();
}

__device__ void change_back(const SampleRequest& request, const LogitChange* changes, float* logits,
                            const float* before) {
  __syncthreads();  // all threads have read them
  for (int32_t i = threadIdx.x; i < request.change_count(); i += kThreads) logits[changes[i].token] = before[i];
  __syncthreads();
}

// Whether the row's most likely candidate has a finite logit; `token` is set to it.
__device__ bool is_finite(Key first, int32_t& token) {
  const float largest = logit_of(first);
  if (largest == -INFINITY) token = SampleResult::kNoCandidate;
  if (largest == INFINITY) token = SampleResult::kNeedsHost;
  return largest > -INFINITY && largest < INFINITY;
}

__device__ int32_t sample_row(const SampleRequest& request, const Call& call, SampleResult& out) {
  __shared__ List list;
  const auto count = static_cast<int32_t>(call.vocabulary);
  float* const logits = call.logits + request.row * call.vocabulary;
  const int64_t first_change = int64_t{request.changes} - call.first_change;
  Key first = first_of_row(call.parts, call.vocabulary);
  int32_t token = SampleResult::kNoCandidate;
  if (!is_finite(first, token)) return token;
  const WantedSums sums = wanted_sums(request, call.vocabulary);
  const int64_t sample = blockIdx.x, parts = sample * kRowParts;
  Row row{logits, count, logit_of(first)};
  if (sums.plain) row.plain = call.parts.plain + parts;
  if (sums.drawn) row.drawn = call.parts.drawn + parts;
  if (sums.bins) row.bins = call.parts.bins + sample * kCandidateBins;
  if (request.top_logprobs >= 0 && !report(request, row, list, out)) return SampleResult::kNeedsHost;
  if (request.forced >= 0) return request.forced;
  if (request.change_count() > 0) {
    change(request, call.changes + first_change, logits, call.changed + first_change);
    first = most_likely(logits, count);
    row = {logits, count, logit_of(first)};
  }
  if (is_finite(first, token)) token = choose(request, row, first, list);
  if (request.change_count() > 0)
    change_back(request, call.changes + first_change, logits, call.changed + first_change);
  return token;
}

__global__ void __launch_bounds__(kThreads) sample_kernel(Call call) {
  trigger_dependents();
  wait_for_dependencies();
  const SampleRequest& request = call.samples[blockIdx.x];
  SampleResult& out = call.sampled[blockIdx.x];
  const int32_t token = sample_row(request, call, out);
  if (threadIdx.x != 0) return;
  out.token = token;
  if (request.top_logprobs >= 0 && token >= 0) out.logit = call.logits[request.row * call.vocabulary + token];
}

}  // namespace

void sample(LaunchQueue& stream, float* logits, int64_t vocabulary, const SampleRequest* samples, int32_t count,
            const LogitChange* changes, int32_t first_change, bool wants_sums, const SampleScratch& scratch,
            SampleResult* sampled) {
  CAIRN_DCHECK(count > 0 && vocabulary > 0 && vocabulary <= kSampleVocabularyMax);
  const SampledRows rows{logits, vocabulary, samples, count};
  const RowParts parts = row_parts_in(scratch.parts, count);
  find_firsts(stream, rows, parts);
  if (wants_sums) sum_parts(stream, rows, parts);
  const Call call{logits, vocabulary, samples, parts, changes, first_change, scratch.changed, sampled};
  launch_dependent(sample_kernel, dim3(static_cast<unsigned>(count)), kThreads, 0, stream, call);
}

}  // namespace cairn::kernels::cuda
