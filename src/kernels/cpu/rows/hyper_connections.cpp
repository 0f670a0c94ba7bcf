#include "kernels/cpu/rows/hyper_connections.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace cairn::kernels::cpu {
namespace {

constexpr double kAddNs = 0.3;  // approximate, per element and stream; only used to choose the size of chunks
constexpr double kShareNs = 20;

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// Transforms a matrix [from, to] in place, from logits to one whose rows and columns each sum to nearly 1
// (Sinkhorn-Knopp).
void make_doubly_stochastic(int32_t n, int32_t rounds, float epsilon, float* matrix) {
  for (int32_t from = 0; from < n; ++from) {
    float* row = matrix + int64_t{from} * n;
    const float largest = *std::max_element(row, row + n);
    float sum = 0;
    for (int32_t to = 0; to < n; ++to) sum += row[to] = std::exp(row[to] - largest);
    for (int32_t to = 0; to < n; ++to) row[to] = row[to] / sum + epsilon;
  }
  for (int32_t round = 0; round < rounds; ++round) {
    for (int32_t from = 0; round > 0 && from < n; ++from) {
      float* row = matrix + int64_t{from} * n;
      float sum = epsilon;
      for (int32_t to = 0; to < n; ++to) sum += row[to];
      for (int32_t to = 0; to < n; ++to) row[to] /= sum;
    }
    for (int32_t to = 0; to < n; ++to) {
      float sum = epsilon;
      for (int32_t from = 0; from < n; ++from) sum += matrix[from * n + to];
      for (int32_t from = 0; from < n; ++from) matrix[from * n + to] /= sum;
    }
  }
}

}  // namespace

void HyperConnectionOp::hyper_connection_weights(const StreamParams& params, const float* logits, int64_t rows,
                                                 float* shares) {
  CAIRN_DCHECK(params.streams > 0 && params.streams <= kStreamsMax);
  const int32_t n = params.streams, all = stream_shares(n);
  team_.run_items(rows, kShareNs * n * n * params.rounds, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* from = logits + r * all;
      float* to = shares + r * all;
      for (int32_t i = 0; i < n; ++i) {
        to[i] = sigmoid(from[i] * params.scale[0] + params.base[i]) + params.epsilon;
        to[n + i] = 2 * sigmoid(from[n + i] * params.scale[1] + params.base[n + i]);
      }
      for (int32_t i = 2 * n; i < all; ++i) to[i] = from[i] * params.scale[2] + params.base[i];
      make_doubly_stochastic(n, params.rounds, params.epsilon, to + int64_t{2} * n);
    }
  });
}

void HyperConnectionOp::gate_streams(const StreamParams& params, const float* logits, int64_t rows, float* shares) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int32_t i = 0; i < params.streams; ++i) {
      const int64_t at = r * params.streams + i;
      shares[at] = sigmoid(logits[at] * params.scale[0] + params.base[i]) + params.epsilon;
    }
  }
}

void HyperConnectionOp::hyper_connection_read(const float* x, const float* shares, int32_t stride, int32_t streams,
                                              int64_t rows, int64_t cols, float* out) {
  team_.run_items(rows, kAddNs * static_cast<double>(streams * cols), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      kernels_.weighted_sum(x + r * streams * cols, shares + r * stride, streams, cols, out + r * cols);
    }
  });
}

void HyperConnectionOp::hyper_connection_write(const float* x, const float* y, const float* shares, int32_t streams,
                                               int64_t rows, int64_t cols, float* out) {
  const int32_t all = stream_shares(streams);
  team_.run_items(rows * streams, kAddNs * static_cast<double>(streams * cols), 1,
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t r = i / streams, to = i % streams;
                      const float* takes = shares + r * all + streams;
                      float weights[kStreamsMax];
                      for (int32_t from = 0; from < streams; ++from) {
                        weights[from] = takes[streams + from * streams + to];
                      }
                      kernels_.weighted_sum(x + r * streams * cols, weights, streams, cols, out + i * cols);
                      kernels_.add(out + i * cols, y + r * cols, cols, takes[to]);
                    }
                  });
}

}  // namespace cairn::kernels::cpu
