#include "api/params/sampling_fields.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "api/params/request_context.h"
#include "sampling/parameters.h"
#include "sampling/text_ban.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

constexpr float kNeverBias = -100;  // what `false` stands for

/// What KoboldCpp and text-generation-webui call parameters.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {{"typical", "typical_p"},
                                                                         {"rep_pen", "repetition_penalty"},
                                                                         {"rep_pen_range", "penalty_last_n"},
                                                                         {"nsigma", "top_n_sigma"},
                                                                         {"mirostat_mode", "mirostat"}};

// The parameter by one of its names; nullopt: it is not there, or rejected.
std::optional<double> read_named(RequestFields& fields, const sampling::SamplingParameter& parameter,
                                 std::string_view name) {
  if (parameter.whole()) {
    const auto number = fields.optional_integer(name, static_cast<int64_t>(parameter.taken_low()),
                                                static_cast<int64_t>(parameter.high));
    return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto number = static_cast<float>(fields.number(name, kNone, parameter.taken_low(), parameter.high));
  if (std::isnan(number)) return std::nullopt;
  if (parameter.takes(number)) return number;
  fields.reject(name, fmt::format("must be {}, not {}", parameter.range_text(), number));
  return std::nullopt;
}

void read_parameter(RequestFields& fields, const sampling::SamplingParameter& parameter,
                    sampling::SamplingParams& sampling) {
  std::optional<double> value;
  std::string_view first;
  for (const std::string_view name : names_of(parameter)) {
    const auto other = read_named(fields, parameter, name);
    if (value && other && *value != *other) fields.reject(name, fmt::format("contradicts {}", first));
    if (value || !other) continue;
    value = other;
    first = name;
  }
  if (!value) return;
  if (const auto meant = parameter.meaning(*value)) parameter.set(sampling, *meant);
}

std::optional<TokenId> token_id_of(std::string_view key) {
  int32_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0) return std::nullopt;
  return TokenId{id};
}

// Adds the bias of a token or of the tokens of a text; what is wrong with it, or nothing.
std::string add_bias(const ordered_json& target, const ordered_json& amount, engine::GenerateRequest& generate) {
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
void read_logit_bias(RequestFields& fields, engine::GenerateRequest& generate) {
  const ordered_json* value = fields.get("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object() && !value->is_array())
    return fields.reject("logit_bias", "must be an object of token id or text to number, or an array of such pairs");
  if (value->size() > sampling::kLogitBiasMax)
    return fields.reject("logit_bias", fmt::format("may have at most {} entries", sampling::kLogitBiasMax));
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

// vLLM's list of the only tokens that may be sampled.
void read_allowed_tokens(RequestFields& fields, engine::GenerateRequest& generate) {
  const ordered_json* value = fields.get("allowed_token_ids");
  if (value == nullptr) return;
  if (!value->is_array() || value->empty() || !std::ranges::all_of(*value, is_token_id))
    return fields.reject("allowed_token_ids", "must be an array of at least one token id");
  for (const ordered_json& id : *value) generate.allowed_tokens.push_back(TokenId{id.get<int32_t>()});
}

// vLLM bans a word with a space before it and without, so that white space before it means nothing.
std::string without_space_before(std::string text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? text : text.substr(begin);
}

// Texts that never come: vLLM's words, and the strings of TabbyAPI, which are taken as they are.
void read_banned_texts(RequestFields& fields, std::string_view name, bool as_words, engine::GenerateRequest& generate) {
  const ordered_json* value = fields.get(name);
  if (value == nullptr) return;
  const auto is_text = [](const ordered_json& text) {
    return text.is_string() && !text.get_ref<const std::string&>().empty() &&
           text.get_ref<const std::string&>().size() <= sampling::kBannedTextBytesMax;
  };
  if (!value->is_array() || !std::ranges::all_of(*value, is_text))
    return fields.reject(name,
                         fmt::format("must be an array of strings of 1 to {} bytes", sampling::kBannedTextBytesMax));
  std::vector<std::string>& texts = generate.banned_texts;
  for (const ordered_json& item : *value)
    texts.push_back(as_words ? without_space_before(item.get<std::string>()) : item.get<std::string>());
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  if (texts.size() > sampling::kBannedTextsMax || bytes > sampling::kBannedTextsBytesMax)
    fields.reject(name, fmt::format("may have at most {} strings with {} bytes together, not {} with {}",
                                    sampling::kBannedTextsMax, sampling::kBannedTextsBytesMax, texts.size(), bytes));
}

// transformers' switch: false always takes the most likely token, as a temperature of 0 does.
void read_do_sample(RequestFields& fields, sampling::SamplingParams& sampling) {
  if (fields.boolean("do_sample", true)) return;
  const ordered_json* temperature = fields.get("temperature");
  if (temperature != nullptr && *temperature != 0)
    return fields.reject("do_sample", "is false, which contradicts temperature: leave out one of them");
  sampling.temperature = 0;
}

// An array of names, or llama.cpp's letters. Steps that are not named are off.
void read_steps(RequestFields& fields, sampling::SamplingParams& sampling) {
  const ordered_json* value = fields.get("samplers");
  if (value == nullptr) return;
  const bool is_list = value->is_array();
  const size_t count = is_list ? value->size() : value->is_string() ? value->get_ref<const std::string&>().size() : 0;
  if (!is_list && !value->is_string())
    return fields.reject("samplers", "must be an array of names or a string of letters");
  if (count > sampling::kSamplerStepsMax)
    return fields.reject("samplers",
                         fmt::format("may have at most {} steps, not {}", sampling::kSamplerStepsMax, count));
  sampling.steps.clear();
  const auto add = [&](std::optional<sampling::SamplerStep> step, const ordered_json& name) {
    if (step) return sampling.steps.push_back(*step);
    fields.reject("samplers", sampling::no_sampler_step(quoted_value(name)));
  };
  if (!is_list) {
    for (const char letter : value->get_ref<const std::string&>())
      add(sampling::sampler_step_of_letter(letter), std::string(1, letter));
    return;
  }
  for (const ordered_json& name : *value)
    add(name.is_string() ? sampling::sampler_step_named(name.get_ref<const std::string&>()) : std::nullopt, name);
}

void read_breakers(RequestFields& fields, sampling::DryParams& dry) {
  const ordered_json* value = fields.get("dry_sequence_breakers");
  if (value == nullptr) return;
  const auto is_text = [](const ordered_json& text) {
    return text.is_string() && !text.get_ref<const std::string&>().empty() &&
           text.get_ref<const std::string&>().size() <= sampling::kDryBreakerBytesMax;
  };
  const bool fits =
      value->is_array() && value->size() <= sampling::kDryBreakersMax && std::ranges::all_of(*value, is_text);
  if (!fits) {
    return fields.reject("dry_sequence_breakers",
                         fmt::format("must be an array of at most {} strings of 1 to {} bytes",
                                     sampling::kDryBreakersMax, sampling::kDryBreakerBytesMax));
  }
  dry.breakers = value->get<std::vector<std::string>>();
}

}  // namespace

uint64_t random_seed() {
  std::random_device random;
  return static_cast<uint64_t>(random()) << 32 | random();
}

std::vector<std::string_view> names_of(const sampling::SamplingParameter& parameter) {
  std::vector<std::string_view> names = {parameter.name};
  if (!parameter.alias.empty()) names.push_back(parameter.alias);
  for (const auto& [other, name] : kOtherNames)
    if (name == parameter.name) names.push_back(other);
  return names;
}

void read_given_sampling(RequestFields& fields, engine::GenerateRequest& generate) {
  sampling::SamplingParams& sampling = generate.sampling;
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters())
    read_parameter(fields, parameter, sampling);
  read_do_sample(fields, sampling);
  read_breakers(fields, sampling.dry);
  read_steps(fields, sampling);
  read_logit_bias(fields, generate);
  read_allowed_tokens(fields, generate);
  read_banned_texts(fields, "bad_words", /*as_words=*/true, generate);
  read_banned_texts(fields, "banned_strings", /*as_words=*/false, generate);
}

void read_seed(RequestFields& fields, std::optional<int64_t> preset, sampling::SamplingParams& sampling) {
  constexpr int64_t kAny = -1;
  constexpr int64_t kAnyOf32Bits = std::numeric_limits<uint32_t>::max();
  const auto read = [&](std::string_view name) {
    return fields.optional_integer(name, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  };
  auto seed = read("seed");
  const auto other = read("sampler_seed");
  if (seed && other && *seed != *other) fields.reject("sampler_seed", "contradicts seed");
  if (!seed) seed = other;
  const bool is_given = seed && *seed != kAny && *seed != kAnyOf32Bits;
  sampling.seed = is_given ? static_cast<uint64_t>(*seed) : random_seed();
  if (!seed && preset && *preset != kAny) sampling.seed = static_cast<uint64_t>(*preset);
}

void read_sampling(RequestFields& fields, engine::GenerateRequest& generate) {
  const GenerationDefaults& defaults = fields.context().defaults();
  defaults.sampling.apply(generate.sampling);
  read_given_sampling(fields, generate);
  read_seed(fields, defaults.seed, generate.sampling);
}

void read_probabilities(RequestFields& fields, sampling::SamplingParams& sampling) {
  sampling.top_logprobs = static_cast<int32_t>(fields.integer("n_probs", 0, 0, sampling::kTopLogprobsMax));
  sampling.logprobs = sampling.top_logprobs > 0;
  sampling.filtered_logprobs = fields.boolean("post_sampling_probs", false);
}

}  // namespace cairn::api
