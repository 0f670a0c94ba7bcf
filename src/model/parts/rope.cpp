#include "model/parts/rope.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "kernels/attention_operations.h"
#include "model/metadata_reader.h"

namespace cairn::model {

namespace {

/// Pair (as a real number) that turns `rotations` times over the original context.
double pair_of_rotations(const RopeParams& params, double rotations) {
  return params.dims * std::log(params.original_context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(params.base));
}

/// 1 for pairs up to `low`, which keep their frequency, 0 from `high` on.
double ramp(double low, double high, double pair) {
  return 1 - std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0);
}

Result<RopeScaling> read_scaling(const MetadataReader& keys) {
  CAIRN_TRY(const std::string_view name, keys.string_or("rope.scaling.type", "linear"));
  if (name == "none") return RopeScaling::kNone;
  if (name == "linear") return RopeScaling::kLinear;
  if (name == "yarn") return RopeScaling::kYarn;
  if (name == "longrope") return RopeScaling::kLongRope;
  return fail(Code::kUnsupported, "{} is \"{}\"; supported are none, linear, yarn, longrope",
              keys.full("rope.scaling.type"), name);
}

/// Divisors of the frequencies, or nothing if the file has none.
Result<std::vector<float>> read_factors(const MetadataReader& keys, const RopeParams& params, int32_t context_tokens) {
  const gguf::Tensor* tensor = keys.file().find_tensor("rope_freqs.weight");
  if (tensor == nullptr) {
    const bool is_long = context_tokens > params.original_context;
    tensor = keys.file().find_tensor(is_long ? "rope_factors_long.weight" : "rope_factors_short.weight");
  }
  std::vector<float> factors;
  if (tensor == nullptr) return factors;
  if (tensor->type != TensorType::kF32 || tensor->elements() != params.dims / 2) {
    return fail_at(fmt::format("tensor {}", tensor->name), Code::kCorruptFile,
                   "{} has {} elements of type {}, but {} of F32 were expected, one for each rotated pair",
                   tensor->name, tensor->elements(), tensor_type_name(tensor->type), params.dims / 2);
  }
  factors.resize(params.dims / 2);
  std::memcpy(factors.data(), tensor->bytes.data(), factors.size() * sizeof(float));
  for (const float factor : factors) {
    if (!(factor > 0) || !std::isfinite(factor)) {
      return fail_at(fmt::format("tensor {}", tensor->name), Code::kCorruptFile,
                     "{} has an element {}, but every factor must be above zero", tensor->name, factor);
    }
  }
  return factors;
}

RopeConfig description_of(const RopeParams& params, kernels::RopeStyle style, std::span<const float> factors) {
  return {style, params.dims, rope_frequencies(params, factors), static_cast<float>(rope_magnitude(params))};
}

}  // namespace

std::vector<double> rope_frequencies(const RopeParams& params, std::span<const float> factors) {
  double low = 0;
  double high = 0;
  if (params.scaling == RopeScaling::kYarn) {
    low = pair_of_rotations(params, params.beta_fast);
    high = pair_of_rotations(params, params.beta_slow);
    if (params.truncates) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(0.0, low);
    high = std::min(params.dims - 1.0, high);
  }
  std::vector<double> frequencies(params.dims / 2);
  for (int32_t pair = 0; pair < params.dims / 2; ++pair) {
    double frequency = std::pow(params.base, -2.0 * pair / params.dims);
    if (!factors.empty()) frequency /= factors[pair];
    if (params.scaling == RopeScaling::kLinear) frequency /= params.factor;
    if (params.scaling == RopeScaling::kYarn) {
      const double unscaled = ramp(low, high, pair) * params.extrapolation;
      frequency = frequency / params.factor * (1 - unscaled) + frequency * unscaled;
    }
    frequencies[pair] = frequency;
  }
  return frequencies;
}

double rope_magnitude(const RopeParams& params) {
  if (params.scaling != RopeScaling::kYarn || params.extrapolation == 0 || params.factor <= 1) {
    return params.attention_factor;
  }
  const double growth = 0.1 * std::log(params.factor);
  return params.attention_factor * (1 + growth) / (1 + params.log_multiplier * growth);
}

Result<RopeParams> read_rope_params(const MetadataReader& keys, const RopeSizes& sizes) {
  RopeParams params;
  CAIRN_TRY(params.dims, keys.integer_or("rope.dimension_count", sizes.head_dim, 2, sizes.head_dim));
  if (params.dims % 2 != 0) {
    return fail(Code::kCorruptFile, "{} is {}, but rotated elements come in pairs", keys.full("rope.dimension_count"),
                params.dims);
  }
  CAIRN_TRY(params.base, keys.positive_or("rope.freq_base", 10'000));
  CAIRN_TRY(params.scaling, read_scaling(keys));
  const char* factor_key = keys.contains("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  CAIRN_TRY(params.factor, keys.number_or(factor_key, 0));
  if (params.factor == 0) params.factor = 1;
  if (!(params.factor > 0)) {
    return fail(Code::kCorruptFile, "{} is {}, but it must not be negative", keys.full(factor_key), params.factor);
  }
  CAIRN_TRY(params.original_context,
            keys.integer_or("rope.scaling.original_context_length", sizes.context_trained, 1, kContextMax));
  CAIRN_TRY(params.extrapolation, keys.number_or("rope.scaling.yarn_ext_factor", 1));
  CAIRN_TRY(params.beta_fast, keys.positive_or("rope.scaling.yarn_beta_fast", 32));
  CAIRN_TRY(params.beta_slow, keys.positive_or("rope.scaling.yarn_beta_slow", 1));
  CAIRN_TRY(params.log_multiplier, keys.number_or("rope.scaling.yarn_log_multiplier", 0));
  CAIRN_TRY(params.attention_factor, keys.number_or("rope.scaling.attn_factor", 1));
  if (params.scaling == RopeScaling::kYarn && params.base == 1) {
    return fail(Code::kCorruptFile, "{} is 1, which gives every pair the same frequency", keys.full("rope.freq_base"));
  }
  return params;
}

Result<RopeConfig> read_rope(const MetadataReader& keys, kernels::RopeStyle style, const RopeSizes& sizes,
                             bool yarn_truncates) {
  CAIRN_TRY(RopeParams params, read_rope_params(keys, sizes));
  params.truncates = yarn_truncates;
  CAIRN_TRY(const std::vector<float> factors, read_factors(keys, params, sizes.context_tokens));
  RopeConfig rope = description_of(params, style, factors);
  const auto has = [&](const char* tensor) { return keys.file().find_tensor(tensor) != nullptr; };
  if (!has("rope_freqs.weight") && has("rope_factors_long.weight")) {
    rope.short_context = static_cast<int32_t>(params.original_context);
  }
  return rope;
}

Result<RopeConfig> read_window_rope(const MetadataReader& keys, kernels::RopeStyle style, double base,
                                    const RopeSizes& sizes, int32_t dims) {
  CAIRN_TRY(const RopeParams main, read_rope_params(keys, sizes));
  RopeParams params;
  params.dims = dims == 0 ? main.dims : dims;
  CAIRN_TRY(params.base, keys.positive_or("rope.freq_base_swa", static_cast<float>(base == 0 ? main.base : base)));
  return description_of(params, style, {});
}

int64_t RopeTables::offset(int32_t rope) const {
  int64_t elements = 0;
  for (const RopeConfig& before : ropes_.first(rope)) elements += rows_ * before.dims;
  return elements;
}

void RopeTables::add_to(ActivationArena& arena, std::span<const RopeConfig> ropes, int64_t rows) {
  ropes_ = ropes;
  rows_ = rows;
  arena.add(tables_, offset(static_cast<int32_t>(ropes.size())));
}

void RopeTables::compute(kernels::AttentionOperations& operations, std::span<const int32_t> positions) const {
  float* table = tables_;
  for (const RopeConfig& rope : ropes_) {
    operations.rope_table(positions, rope.frequencies, rope.magnitude, table);
    table += rows_ * rope.dims;
  }
}

}  // namespace cairn::model
