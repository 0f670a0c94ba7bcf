#include "api/params/llama_options.h"

#include <algorithm>
#include <limits>

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

constexpr double kMost = std::numeric_limits<double>::max();
constexpr std::string_view kOtherFilters = "use temperature, top_k, top_p, min_p or typical_p";

constexpr OffField kSamplers[] = {
    {"mirostat", 0, 0, kOtherFilters},
    {"tfs_z", 1, kMost, kOtherFilters},
    {"dry_multiplier", 0, 0, "use repeat_penalty, presence_penalty or frequency_penalty"},
    {"xtc_probability", 0, 0, kOtherFilters},
    {"top_n_sigma", -kMost, 0, kOtherFilters},
    {"adaptive_target", -kMost, 0, kOtherFilters},
    {"dynatemp_range", 0, 0, "use temperature"},
};

}  // namespace

void refuse_unless_off(RequestFields& fields, std::span<const OffField> table) {
  for (const OffField& field : table) {
    const double off = std::clamp(0.0, field.low, field.high);
    const double value = fields.number(field.name, off, -kMost, kMost);
    if (value < field.low || value > field.high) fields.refuse(field.name, field.why);
  }
}

void refuse_unless_empty(RequestFields& fields, std::string_view name, std::string_view why) {
  fields.only_empty(name, why);
}

ordered_json without_any_seed(ordered_json object) {
  constexpr int64_t kAny = -1;
  constexpr int64_t kAnyOf32Bits = std::numeric_limits<uint32_t>::max();
  const auto seed = object.find("seed");
  if (seed != object.end() && (*seed == kAny || *seed == kAnyOf32Bits)) object.erase("seed");
  return object;
}

void refuse_samplers(RequestFields& fields) {
  refuse_unless_off(fields, kSamplers);
  refuse_unless_empty(fields, "samplers", "the order of the filters is fixed, see docs/sampling.md");
  fields.accept({"mirostat_tau", "mirostat_eta", "dry_base", "dry_allowed_length", "dry_penalty_last_n",
                 "dry_sequence_breakers", "xtc_threshold", "adaptive_decay", "dynatemp_exponent"});
}

void read_predict(RequestFields& fields, std::string_view name, int32_t low, GenerateRequest& generate) {
  const auto tokens = fields.optional_integer(name, -2, std::numeric_limits<int32_t>::max());
  if (tokens == 0 && low > 0) fields.reject(name, "must be 1 or more, or -1 to go on to the end of the context, not 0");
  if (tokens) generate.max_tokens = *tokens < 0 ? -1 : static_cast<int32_t>(*tokens);
}

}  // namespace cairn::api
