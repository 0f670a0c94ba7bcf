/// Rotary positions, a part of attention: from metadata and factor tensors to one frequency per pair and one magnitude,
/// and from these to the tables of a step.
///
/// Sources of the formulas: RoPE (Su et al. 2021); position interpolation ("linear"); YaRN (Peng et al. 2023, sections
/// 3.2 to 3.4): high frequencies stay, low ones are divided by the factor, a ramp lies between, and rotated vectors
/// grow by 1 + 0.1 ln(factor); LongRoPE (Ding et al. 2024): a divisor per pair, one set for short contexts and one for
/// long.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/operation_params.h"
#include "model/activation_arena.h"

namespace cairn::kernels {
class AttentionOperations;
}  // namespace cairn::kernels

namespace cairn::model {

class MetadataReader;

/// A way to turn positions into rotations; layers refer to it by index, its table is computed once a step.
struct RopeConfig {
  kernels::RopeStyle style = kernels::RopeStyle::kInterleaved;
  int32_t dims = 0;                 ///< first elements of a head that turn; even
  std::vector<double> frequencies;  ///< [dims / 2], radians per position
  float magnitude = 1;
  /// LongRoPE: contexts of at most so many tokens have other frequencies; 0: there is no choice.
  int32_t short_context = 0;
};

/// The tables of a step, one for each way, [rows, dims].
class RopeTables {
 public:
  /// `ropes` outlive this.
  void add_to(ActivationArena& arena, std::span<const RopeConfig> ropes, int64_t rows);
  /// Makes the tables of at most as many rows, which are at these positions.
  void compute(kernels::AttentionOperations& operations, std::span<const int32_t> positions) const;
  const float* table(int32_t rope) const { return tables_ + offset(rope); }

 private:
  int64_t offset(int32_t rope) const;

  std::span<const RopeConfig> ropes_;
  int64_t rows_ = 0;
  float* tables_ = nullptr;  // one behind the other, each with room for all rows
};

enum class RopeScaling { kNone, kLinear, kYarn, kLongRope };

struct RopeParams {
  double base = 10'000;
  int32_t dims = 0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;            ///< of linear and yarn: how many times longer than trained
  double original_context = 0;  ///< positions before stretching
  double extrapolation = 1;     ///< yarn: weight of the unscaled high frequencies
  double beta_fast = 32;        ///< yarn: rotations over the original context above which a pair stays as it is
  double beta_slow = 1;         ///< yarn: below which it is interpolated
  bool truncates = true;        ///< yarn: both ends of the ramp are moved outwards to whole pairs
  double log_multiplier = 0;    ///< yarn: magnitude is divided by 1 + 0.1 * this * ln(factor), if not 0
  double attention_factor = 1;  ///< multiplies the magnitude
};

/// Radians per position of each pair: [dims / 2]. `factors` [dims / 2] divide the unscaled ones; empty: none.
std::vector<double> rope_frequencies(const RopeParams& params, std::span<const float> factors);
/// The factor of all cosines and sines (YaRN's attention factor; 1 without).
double rope_magnitude(const RopeParams& params);

/// What ropes depend on beside their own keys.
struct RopeSizes {
  int32_t head_dim = 0;  ///< of queries and keys
  int32_t context_trained = 0;
  int32_t context_tokens = 0;  ///< of this run
};

/// Reads the parameters of the file's main rope; factor tensors are not among them.
Result<RopeParams> read_rope_params(const MetadataReader& keys, const RopeSizes& sizes);
/// The file's main rope: rope.dimension_count, rope.freq_base, rope.scaling.*, and tensors rope_freqs.weight,
/// rope_factors_long.weight, rope_factors_short.weight. Which of the last two: by the context_tokens. No key
/// says whether yarn truncates (RopeParams::truncates).
Result<RopeConfig> read_rope(const MetadataReader& keys, kernels::RopeStyle style, const RopeSizes& sizes,
                             bool yarn_truncates = true);
/// The same without any scaling: base by rope.freq_base_swa, else `base`, else rope.freq_base if `base` is 0. `dims`
/// elements turn, or those of the main rope if it is 0.
Result<RopeConfig> read_window_rope(const MetadataReader& keys, kernels::RopeStyle style, double base,
                                    const RopeSizes& sizes, int32_t dims = 0);

}  // namespace cairn::model
