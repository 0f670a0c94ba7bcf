#include "api/params/generation_params.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "base/hash.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

void read_stop(RequestFields& fields, std::vector<std::string>& stop) {
  const ordered_json* value = fields.get("stop");
  if (value == nullptr) return;
  const auto add = [&](const ordered_json& text) {
    if (!text.is_string()) return fields.reject("stop", "must be a string or an array of strings");
    const auto& string = text.get_ref<const std::string&>();
    if (string.empty() || string.size() > kStopBytesMax) {
      return fields.reject("stop", fmt::format("strings must have 1 to {} bytes", kStopBytesMax));
    }
    stop.push_back(string);
  };
  if (!value->is_array()) return add(*value);
  if (value->size() > kStopsMax) {
    return fields.reject("stop", fmt::format("may have at most {} strings, not {}", kStopsMax, value->size()));
  }
  for (const auto& text : *value) add(text);
}

void read_logit_bias(RequestFields& fields, std::vector<std::pair<TokenId, float>>& bias) {
  const ordered_json* value = fields.get("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object()) return fields.reject("logit_bias", "must be an object of token id to number");
  if (value->size() > kLogitBiasMax) {
    return fields.reject("logit_bias", fmt::format("may have at most {} entries", kLogitBiasMax));
  }
  for (const auto& [key, amount] : value->items()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      return fields.reject("logit_bias", fmt::format("has the key {}, which is not a token id", quoted_value(key)));
    }
    if (!amount.is_number() || std::abs(amount.get<double>()) > 100) {
      return fields.reject("logit_bias", fmt::format("of token {} must be a number from -100 to 100", id));
    }
    bias.emplace_back(TokenId{id}, amount.get<float>());
  }
}

void read_sampling(RequestFields& fields, SamplingParams& sampling) {
  const auto number = [&](std::string_view name, float& field, double low, double high) {
    field = static_cast<float>(fields.number(name, field, low, high));
  };
  number("temperature", sampling.temperature, 0, 2);
  number("top_p", sampling.top_p, 0, 1);
  number("min_p", sampling.min_p, 0, 1);
  number("typical_p", sampling.typical_p, 0, 1);
  number("frequency_penalty", sampling.frequency_penalty, -2, 2);
  number("presence_penalty", sampling.presence_penalty, -2, 2);
  for (const char* name : {"repeat_penalty", "repetition_penalty"}) {  // the first is llama.cpp's
    number(name, sampling.repetition_penalty, 0, 10);
    if (fields.get(name) != nullptr && sampling.repetition_penalty == 0)
      fields.reject(name, "must be above 0 and at most 10, not 0");
  }
  sampling.top_k = static_cast<int32_t>(fields.integer("top_k", sampling.top_k, -1, kTokensMax));
  if (sampling.top_k < 0) sampling.top_k = 0;  // vLLM's "off"
  sampling.penalty_last = static_cast<int32_t>(
      fields.integer_alias("penalty_last_n", "repeat_last_n", sampling.penalty_last, -1, kPenaltyLastMax));
  read_logit_bias(fields, sampling.logit_bias);
  if (const auto seed =
          fields.optional_integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())) {
    sampling.seed = static_cast<uint64_t>(*seed);
  } else {
    std::random_device random;
    sampling.seed = static_cast<uint64_t>(random()) << 32 | random();
  }
}

Priority read_priority(RequestFields& fields) {
  const ordered_json* value = fields.get("priority");
  if (value == nullptr || *value == "interactive") return Priority::kInteractive;
  if (*value == "batch") return Priority::kBatch;
  fields.reject("priority", fmt::format("must be \"interactive\" or \"batch\", not {}", quoted_value(*value)));
  return Priority::kInteractive;
}

// OpenAI's metadata has strings for values, so that "250" is as good as 250.
std::chrono::milliseconds read_target(RequestFields& fields, const ordered_json& metadata, std::string_view name) {
  const auto value = metadata.find(name);
  if (value == metadata.end() || value->is_null()) return {};
  double ms = 0;
  bool valid = value->is_number();
  if (valid) {
    ms = value->get<double>();
  } else if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
    valid = error == std::errc() && end == text.data() + text.size();
  }
  if (!valid || !(ms >= 1 && ms <= static_cast<double>(kTargetMsMax))) {
    fields.reject(fmt::format("metadata.{}", name),
                  fmt::format("must be milliseconds from 1 to {}, not {}", kTargetMsMax, quoted_value(*value)));
    return {};
  }
  return std::chrono::milliseconds(std::llround(ms));
}

// Who waits how long, and who may share what is cached: what the scheduler and the cache need to know.
void read_service(RequestFields& fields, GenerateRequest& generate) {
  generate.priority = read_priority(fields);
  if (const ordered_json* metadata = fields.object("metadata")) {
    generate.target_ttft = read_target(fields, *metadata, "target_ttft_ms");
    generate.target_tbt = read_target(fields, *metadata, "target_tbt_ms");
  }
  if (fields.get("cache_salt") != nullptr) {
    const std::string salt = fields.string("cache_salt", "");
    if (salt.empty() || salt.size() > kCacheSaltBytesMax) {
      fields.reject("cache_salt", fmt::format("must have 1 to {} bytes", kCacheSaltBytesMax));
    }
    generate.salt = hash64(salt) | 1;  // 0 is for requests without one
  }
}

}  // namespace

void read_generation_params(RequestFields& fields, GenerateRequest& generate) {
  read_stop(fields, generate.stop);
  read_sampling(fields, generate.sampling);
  generate.ignore_eos = fields.boolean("ignore_eos", false);
  read_service(fields, generate);
}

void refuse_unless_text_format(RequestFields& fields, std::string_view name) {
  const ordered_json* format = fields.get(name);
  if (format == nullptr) return;
  const bool is_text = format->is_object() && format->contains("type") && (*format)["type"] == "text";
  if (!is_text) fields.refuse(name, "only {\"type\": \"text\"} is available yet");
}

}  // namespace cairn::api
