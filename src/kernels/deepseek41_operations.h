/// What DeepSeek V4.1 needs beside V4's operations. Part of the interface of kernels/backend.h.
///
/// A backend that has these has candidates in MlaOperations::select_topk too.
#pragma once

#include <cstdint>

namespace cairn::kernels {

/// Simulates the rounding that models were trained with: blocks of numbers with a scale.
enum class SimulatedRounding {
  kFp8Blocks32,  ///< E4M3, 32 with a power of two
  kFp4Blocks32,  ///< E2M1, 32 with a power of two
  kFp4Blocks16,  ///< E2M1, 16 with an E4M3 number
};

struct EngramParams {
  int32_t streams = 0;
  float epsilon = 0;                  ///< of the norms
  const float* query_norm = nullptr;  ///< [streams, cols]
  const float* key_norm = nullptr;    ///< [streams, cols]
};

/// Conventions as in Backend.
class Deepseek41Operations {
 public:
  virtual ~Deepseek41Operations() = default;

  /// x[r, s] += gate * value[r]. With d the product of x[r, s] and key[r, s], both RMS-normed and weighted, divided by
  /// sqrt(cols): gate = sigmoid(sign(d) * sqrt(max(|d|, 1e-6))). keys_value [rows, streams + 1, cols], the value last;
  /// x [rows, streams, cols].
  virtual void add_engram(const EngramParams& params, const float* keys_value, int64_t rows, int64_t cols,
                          float* x) = 0;
  /// Each row to numbers of few bits and back, in place.
  virtual void round_rows(SimulatedRounding rounding, float* x, int64_t rows, int32_t dims) = 0;
};

}  // namespace cairn::kernels
