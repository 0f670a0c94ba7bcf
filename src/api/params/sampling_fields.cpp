#include "api/params/sampling_fields.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "api/params/generation_params.h"
#include "api/params/request_context.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

constexpr float kNeverBias = -100;  // what `false` stands for

void read_number(RequestFields& fields, std::string_view name, float& value, double low, double high) {
  value = static_cast<float>(fields.number(name, value, low, high));
}

// Of a number with two names, the second in llama.cpp's words.
void read_either(RequestFields& fields, std::string_view name, std::string_view alias, float& value, double low,
                 double high) {
  read_number(fields, name, value, low, high);
  const float first = value;
  read_number(fields, alias, value, low, high);
  if (fields.get(name) != nullptr && fields.get(alias) != nullptr && first != value)
    fields.reject(alias, fmt::format("contradicts {}", name));
}

std::optional<TokenId> token_id_of(std::string_view key) {
  int32_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0) return std::nullopt;
  return TokenId{id};
}

// Adds the bias of a token or of the tokens of a text; what is wrong with it, or nothing.
std::string add_bias(const ordered_json& target, const ordered_json& amount, GenerateRequest& generate) {
  const bool never = amount == false;
  if (!never && (!amount.is_number() || std::abs(amount.get<double>()) > 100))
    return fmt::format("of {} must be a number from -100 to 100, or false for never", quoted_value(target));
  const float bias = never ? kNeverBias : amount.get<float>();
  if (is_token_id(target)) {
    generate.sampling.logit_bias.emplace_back(TokenId{target.get<int32_t>()}, bias);
  } else if (target.is_string() && !target.get_ref<const std::string&>().empty()) {
    generate.text_bias.emplace_back(target.get<std::string>(), bias);
  } else {
    return fmt::format("must name tokens by their ids or texts, not {}", quoted_value(target));
  }
  return {};
}

// OpenAI's object of id to number, or llama.cpp's pairs [[id or text, number or false], ...].
void read_logit_bias(RequestFields& fields, GenerateRequest& generate) {
  const ordered_json* value = fields.get("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object() && !value->is_array())
    return fields.reject("logit_bias", "must be an object of token id or text to number, or an array of such pairs");
  if (value->size() > kLogitBiasMax)
    return fields.reject("logit_bias", fmt::format("may have at most {} entries", kLogitBiasMax));
  const auto add = [&](const ordered_json& target, const ordered_json& amount) {
    std::string error = add_bias(target, amount, generate);
    if (!error.empty()) fields.reject("logit_bias", std::move(error));
  };
  if (value->is_object()) {
    for (const auto& [key, amount] : value->items()) {
      const auto id = token_id_of(key);
      add(id ? ordered_json(index(*id)) : ordered_json(key), amount);
    }
    return;
  }
  for (const ordered_json& pair : *value) {
    if (!pair.is_array() || pair.size() != 2)
      return fields.reject("logit_bias", "must hold pairs of a token id or text and a number");
    add(pair[0], pair[1]);
  }
}

// An array of names, or llama.cpp's letters. Steps that are not named are off.
void read_steps(RequestFields& fields, SamplingParams& sampling) {
  const ordered_json* value = fields.get("samplers");
  if (value == nullptr) return;
  const auto add = [&](std::optional<SamplerStep> step, std::string_view shown) {
    if (step) return sampling.steps.push_back(*step);
    fields.reject("samplers", fmt::format("has no step {}; there are penalties, dry, top_n_sigma, top_k, typ_p, top_p, "
                                          "min_p, xtc, temperature, infill, adaptive_p, or letters of \"edskypmxtia\"",
                                          shown));
  };
  const bool is_list = value->is_array();
  const size_t count = is_list ? value->size() : value->is_string() ? value->get_ref<const std::string&>().size() : 0;
  if (!is_list && !value->is_string())
    return fields.reject("samplers", "must be an array of names or a string of letters");
  if (count > kSamplerStepsMax)
    return fields.reject("samplers", fmt::format("may have at most {} steps, not {}", kSamplerStepsMax, count));
  sampling.steps.clear();
  if (!is_list) {
    for (const char letter : value->get_ref<const std::string&>())
      add(sampler_step_of_letter(letter), quoted_value(std::string(1, letter)));
    return;
  }
  for (const ordered_json& name : *value)
    add(name.is_string() ? sampler_step_named(name.get_ref<const std::string&>()) : std::nullopt, quoted_value(name));
}

void read_breakers(RequestFields& fields, DryParams& dry) {
  const ordered_json* value = fields.get("dry_sequence_breakers");
  if (value == nullptr) return;
  const auto is_text = [](const ordered_json& text) {
    return text.is_string() && !text.get_ref<const std::string&>().empty() &&
           text.get_ref<const std::string&>().size() <= kDryBreakerBytesMax;
  };
  const bool fits = value->is_array() && value->size() <= kDryBreakersMax && std::ranges::all_of(*value, is_text);
  if (!fits) {
    return fields.reject("dry_sequence_breakers", fmt::format("must be an array of at most {} strings of 1 to {} bytes",
                                                              kDryBreakersMax, kDryBreakerBytesMax));
  }
  dry.breakers = value->get<std::vector<std::string>>();
}

void read_dry(RequestFields& fields, DryParams& dry) {
  constexpr double kGrowthMax = 100;
  read_number(fields, "dry_multiplier", dry.multiplier, 0, 1'000);
  const float preset = dry.base;
  read_number(fields, "dry_base", dry.base, 0, kGrowthMax);
  if (dry.base < 1) dry.base = preset;  // as llama.cpp has it
  dry.allowed_length = static_cast<int32_t>(fields.integer("dry_allowed_length", dry.allowed_length, 0, kTokensMax));
  dry.last = static_cast<int32_t>(fields.integer("dry_penalty_last_n", dry.last, -1, kPenaltyLastMax));
  read_breakers(fields, dry);
}

// What other servers than OpenAI's have besides.
void read_further_steps(RequestFields& fields, SamplingParams& sampling) {
  constexpr double kOff = std::numeric_limits<int32_t>::min();
  read_dry(fields, sampling.dry);
  read_number(fields, "top_n_sigma", sampling.top_n_sigma, kOff, 1'000);
  read_number(fields, "xtc_probability", sampling.xtc_probability, 0, 1);
  read_number(fields, "xtc_threshold", sampling.xtc_threshold, 0, 1);
  read_number(fields, "dynatemp_range", sampling.dynatemp_range, 0, kTemperatureMax);
  read_number(fields, "dynatemp_exponent", sampling.dynatemp_exponent, 0, 100);
  read_number(fields, "adaptive_target", sampling.adaptive_target, kOff, 1);
  read_number(fields, "adaptive_decay", sampling.adaptive_decay, 0, kAdaptiveDecayMax);
  sampling.mirostat = static_cast<int32_t>(fields.integer("mirostat", sampling.mirostat, 0, 2));
  read_number(fields, "mirostat_tau", sampling.mirostat_tau, 0, 100);
  read_number(fields, "mirostat_eta", sampling.mirostat_eta, 0, 1);
  sampling.min_keep = static_cast<int32_t>(fields.integer("min_keep", sampling.min_keep, 0, kTokensMax));
  read_steps(fields, sampling);
}

void read_seed(RequestFields& fields, SamplingParams& sampling) {
  constexpr int64_t kAny = -1;
  constexpr int64_t kAnyOf32Bits = std::numeric_limits<uint32_t>::max();
  const auto seed =
      fields.optional_integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  const bool is_given = seed && *seed != kAny && *seed != kAnyOf32Bits;
  sampling.seed = is_given ? static_cast<uint64_t>(*seed) : random_seed();
  const auto preset = fields.context().defaults().seed;
  if (!seed && preset && *preset != kAny) sampling.seed = static_cast<uint64_t>(*preset);
}

}  // namespace

uint64_t random_seed() {
  std::random_device random;
  return static_cast<uint64_t>(random()) << 32 | random();
}

void read_sampling(RequestFields& fields, GenerateRequest& generate) {
  SamplingParams& sampling = generate.sampling;
  fields.context().defaults().apply(sampling);
  read_number(fields, "temperature", sampling.temperature, 0, kTemperatureMax);
  read_number(fields, "top_p", sampling.top_p, 0, 1);
  read_number(fields, "min_p", sampling.min_p, 0, 1);
  read_either(fields, "typical_p", "typ_p", sampling.typical_p, 0, 1);
  read_number(fields, "frequency_penalty", sampling.frequency_penalty, -2, 2);
  read_number(fields, "presence_penalty", sampling.presence_penalty, -2, 2);
  read_either(fields, "repetition_penalty", "repeat_penalty", sampling.repetition_penalty, 0, 10);
  for (const char* name : {"repetition_penalty", "repeat_penalty"}) {
    if (fields.get(name) != nullptr && sampling.repetition_penalty == 0)
      fields.reject(name, "must be above 0 and at most 10, not 0");
  }
  sampling.top_k = static_cast<int32_t>(fields.integer("top_k", sampling.top_k, -1, kTokensMax));
  if (sampling.top_k < 0) sampling.top_k = 0;  // vLLM's "off"
  sampling.penalty_last = static_cast<int32_t>(
      fields.integer_alias("penalty_last_n", "repeat_last_n", sampling.penalty_last, -1, kPenaltyLastMax));
  read_further_steps(fields, sampling);
  read_logit_bias(fields, generate);
  read_seed(fields, sampling);
}

void read_probabilities(RequestFields& fields, SamplingParams& sampling) {
  sampling.top_logprobs = static_cast<int32_t>(fields.integer("n_probs", 0, 0, kTopLogprobsMax));
  sampling.logprobs = sampling.top_logprobs > 0;
  sampling.filtered_logprobs = fields.boolean("post_sampling_probs", false);
}

}  // namespace cairn::api
