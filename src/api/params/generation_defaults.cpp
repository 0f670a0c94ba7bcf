#include "api/params/generation_defaults.h"

namespace cairn::api {
namespace {

std::optional<float> number_of(const gguf::Metadata& metadata, std::string_view key, double low, double high) {
  const auto value = metadata.number(key);
  if (!value || !(*value >= low && *value <= high)) return std::nullopt;
  return static_cast<float>(*value);
}

std::optional<int32_t> integer_of(const gguf::Metadata& metadata, std::string_view key, int64_t low, int64_t high) {
  const auto value = metadata.integer(key);
  if (!value || *value < low || *value > high) return std::nullopt;
  return static_cast<int32_t>(*value);
}

}  // namespace

GenerationDefaults recommended_by(const gguf::Metadata& metadata) {
  constexpr int32_t kTopKMax = std::numeric_limits<int32_t>::max();
  GenerationDefaults defaults;
  defaults.temperature = number_of(metadata, "general.sampling.temp", 0, kTemperatureMax);
  defaults.top_k = integer_of(metadata, "general.sampling.top_k", 0, kTopKMax);
  defaults.top_p = number_of(metadata, "general.sampling.top_p", 0, 1);
  defaults.min_p = number_of(metadata, "general.sampling.min_p", 0, 1);
  defaults.repetition_penalty = number_of(metadata, "general.sampling.penalty_repeat", 0.01, 10);
  defaults.penalty_last = integer_of(metadata, "general.sampling.penalty_last_n", -1, kPenaltyLastMax);
  return defaults;
}

}  // namespace cairn::api
