#include "api/params/generation_params.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/errors.h"
#include "api/params/llama_options.h"
#include "api/params/prompt_cut.h"
#include "api/params/sampling_fields.h"
#include "api/serialization/json_text.h"
#include "base/hash.h"
#include "chat/answer/stop_regex.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

// `stop_token_ids`, which vLLM has: tokens that end the answer.
void read_stop_tokens(RequestFields& fields, std::vector<TokenId>& tokens) {
  const ordered_json* value = fields.get("stop_token_ids");
  if (value == nullptr) return;
  if (!value->is_array() || value->size() > engine::kStopTokensMax || !std::ranges::all_of(*value, is_token_id))
    return fields.reject("stop_token_ids",
                         fmt::format("must be an array of at most {} token ids", engine::kStopTokensMax));
  for (const ordered_json& id : *value) tokens.push_back(TokenId{id.get<int32_t>()});
}

// SGLang's `stop_regex`: expressions that end the answer; an empty one ends nothing.
void read_stop_regexes(RequestFields& fields, std::vector<std::string>& regexes) {
  const ordered_json* value = fields.get("stop_regex");
  if (value == nullptr) return;
  const auto add = [&](const ordered_json& regex) {
    if (!regex.is_string()) return fields.reject("stop_regex", "must be an expression or an array of expressions");
    const auto& text = regex.get_ref<const std::string&>();
    if (text.size() > chat::kStopRegexBytesMax)
      return fields.reject("stop_regex",
                           fmt::format("may have expressions of at most {} bytes", chat::kStopRegexBytesMax));
    if (!text.empty()) regexes.push_back(text);
  };
  if (!value->is_array()) return add(*value);
  for (const ordered_json& regex : *value) add(regex);
  if (regexes.size() > chat::kStopRegexesMax)
    fields.reject("stop_regex",
                  fmt::format("may have at most {} expressions, not {}", chat::kStopRegexesMax, regexes.size()));
}

// The strings of one of the names; nullopt: it is not there, or rejected. An empty string stops nothing.
std::optional<std::vector<std::string>> stop_texts(RequestFields& fields, std::string_view name) {
  const ordered_json* value = fields.get(name);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> texts;
  const auto add = [&](const ordered_json& text) {
    if (!text.is_string()) return fields.reject(name, "must be a string or an array of strings");
    const auto& string = text.get_ref<const std::string&>();
    if (string.size() > engine::kStopBytesMax)
      return fields.reject(name, fmt::format("strings may have at most {} bytes", engine::kStopBytesMax));
    if (!string.empty()) texts.push_back(string);
  };
  if (!value->is_array()) {
    add(*value);
  } else if (value->size() > kStopsMax) {
    fields.reject(name, fmt::format("may have at most {} strings, not {}", kStopsMax, value->size()));
  } else {
    for (const auto& text : *value) add(text);
  }
  return texts;
}

// What ends an answer, besides its length.
void read_ends(RequestFields& fields, engine::GenerateRequest& generate) {
  // A protocol of other names may have put its own there.
  const bool has_own = !generate.stop.empty();
  if (!read_stop(fields, generate.stop) && !has_own) generate.stop = fields.context().defaults().stop;
  read_stop_regexes(fields, generate.stop_regexes);
  read_stop_tokens(fields, generate.stop_tokens);
  const bool untrimmed = fields.boolean("no_stop_trim", false);  // SGLang's name for it
  generate.shows_stop_tokens = fields.boolean("include_stop_str_in_output", untrimmed);
  if (generate.shows_stop_tokens) generate.shown_stops = generate.stop.size();
  const bool bans_end = fields.boolean("ban_eos_token", false);  // text-generation-webui's name for it
  generate.ignore_eos = fields.boolean("ignore_eos", bans_end);
  // The second name is SGLang's.
  generate.min_tokens = static_cast<int32_t>(fields.integer_alias("min_tokens", "min_new_tokens", 0, 0, kTokensMax));
}

engine::Priority read_priority(RequestFields& fields) {
  const ordered_json* value = fields.get("priority");
  if (value == nullptr || *value == "interactive") return engine::Priority::kInteractive;
  if (*value == "batch") return engine::Priority::kBatch;
  fields.reject("priority", fmt::format("must be \"interactive\" or \"batch\", not {}", quoted_value(*value)));
  return engine::Priority::kInteractive;
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
void read_service(RequestFields& fields, engine::GenerateRequest& generate) {
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

bool read_stop(RequestFields& fields, std::vector<std::string>& stop) {
  std::optional<std::vector<std::string>> texts;
  std::string_view first;
  for (const std::string_view name : kStopNames) {
    if (name != kStopNames[0] && fields.was_read(name)) continue;
    auto read = stop_texts(fields, name);
    if (!read) continue;
    if (texts && *read != *texts) fields.reject(name, fmt::format("contradicts {}", first));
    if (texts) continue;
    texts = std::move(read);
    first = name;
  }
  if (texts) std::ranges::move(*texts, std::back_inserter(stop));
  return texts.has_value();
}

void read_generation_params(RequestFields& fields, engine::GenerateRequest& generate) {
  read_ends(fields, generate);
  read_sampling(fields, generate);
  read_service(fields, generate);
  read_llama_fields(fields, generate);
  generate.prompt_tokens_max = read_prompt_cut(fields);
}

}  // namespace cairn::api
