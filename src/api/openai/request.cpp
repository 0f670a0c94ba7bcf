#include "api/openai/request.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "api/chat/messages.h"
#include "api/errors.h"
#include "api/generation.h"
#include "base/hash.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kTokensMax = std::numeric_limits<int32_t>::max();

void read_stop(Fields& fields, std::vector<std::string>& stop) {
  const ordered_json* value = fields.get("stop");
  if (value == nullptr) return;
  const auto add = [&](const ordered_json& text) {
    if (!text.is_string()) return fields.fail_field("stop", "must be a string or an array of strings");
    const auto& string = text.get_ref<const std::string&>();
    if (string.empty() || string.size() > kStopBytesMax) {
      return fields.fail_field("stop", fmt::format("strings must have 1 to {} bytes", kStopBytesMax));
    }
    stop.push_back(string);
  };
  if (!value->is_array()) return add(*value);
  if (value->size() > kStopsMax) {
    return fields.fail_field("stop", fmt::format("may have at most {} strings, not {}", kStopsMax, value->size()));
  }
  for (const auto& text : *value) add(text);
}

void read_logit_bias(Fields& fields, std::vector<std::pair<TokenId, float>>& bias) {
  const ordered_json* value = fields.get("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object()) return fields.fail_field("logit_bias", "must be an object of token id to number");
  if (value->size() > kLogitBiasMax) {
    return fields.fail_field("logit_bias", fmt::format("may have at most {} entries", kLogitBiasMax));
  }
  for (const auto& [key, amount] : value->items()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      return fields.fail_field("logit_bias",
                               fmt::format("has the key \"{}\", which is not a token id", key.substr(0, 40)));
    }
    if (!amount.is_number() || std::abs(amount.get<double>()) > 100) {
      return fields.fail_field("logit_bias", fmt::format("of token {} must be a number from -100 to 100", id));
    }
    bias.emplace_back(TokenId{id}, amount.get<float>());
  }
}

// Two names for one thing: the newer one counts, and naming both is fine only if they agree.
int64_t read_alias(Fields& fields, std::string_view name, std::string_view alias, int64_t missing, int64_t low,
                   int64_t high) {
  const auto first = fields.optional_integer(name, low, high);
  const auto second = fields.optional_integer(alias, low, high);
  if (first && second && *first != *second) fields.fail_field(alias, fmt::format("contradicts {}", name));
  return first ? *first : second.value_or(missing);
}

void read_sampling(Fields& fields, SamplingParams& sampling) {
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
      fields.fail_field(name, "must be above 0 and at most 10, not 0");
  }
  sampling.top_k = static_cast<int32_t>(fields.integer("top_k", sampling.top_k, -1, kTokensMax));
  if (sampling.top_k < 0) sampling.top_k = 0;  // vLLM's "off"
  sampling.penalty_last = static_cast<int32_t>(
      read_alias(fields, "penalty_last_n", "repeat_last_n", sampling.penalty_last, -1, kPenaltyLastMax));
  read_logit_bias(fields, sampling.logit_bias);
  if (const auto seed =
          fields.optional_integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())) {
    sampling.seed = static_cast<uint64_t>(*seed);
  } else {
    std::random_device random;
    sampling.seed = static_cast<uint64_t>(random()) << 32 | random();
  }
}

Priority read_priority(Fields& fields) {
  const ordered_json* value = fields.get("priority");
  if (value == nullptr || *value == "interactive") return Priority::kInteractive;
  if (*value == "batch") return Priority::kBatch;
  const std::string shown =
      value->is_string() || value->is_number() ? dump(*value).substr(0, 40) : std::string(json_kind(*value));
  fields.fail_field("priority", fmt::format("must be \"interactive\" or \"batch\", not {}", shown));
  return Priority::kInteractive;
}

// OpenAI's metadata has strings for values, so that "250" is as good as 250.
std::chrono::milliseconds read_target(Fields& fields, const ordered_json& metadata, std::string_view name) {
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
    const bool shows = value->is_string() || value->is_number();
    fields.fail_field(fmt::format("metadata.{}", name),
                      fmt::format("must be milliseconds from 1 to {}, not {}", kTargetMsMax,
                                  shows ? dump(*value).substr(0, 40) : std::string(json_kind(*value))));
    return {};
  }
  return std::chrono::milliseconds(std::llround(ms));
}

// Who waits how long, and who may share what is cached: what the scheduler and the cache need to know.
void read_service(Fields& fields, GenerateRequest& generate) {
  generate.priority = read_priority(fields);
  if (const ordered_json* metadata = fields.get("metadata")) {
    if (metadata->is_object()) {
      generate.target_ttft = read_target(fields, *metadata, "target_ttft_ms");
      generate.target_tbt = read_target(fields, *metadata, "target_tbt_ms");
    } else {
      fields.fail_field("metadata", fmt::format("must be an object, not {}", json_kind(*metadata)));
    }
  }
  if (fields.get("cache_salt") != nullptr) {
    const std::string salt = fields.string("cache_salt", "");
    if (salt.empty() || salt.size() > kCacheSaltBytesMax) {
      fields.fail_field("cache_salt", fmt::format("must have 1 to {} bytes", kCacheSaltBytesMax));
    }
    generate.salt = hash64(salt) | 1;  // 0 is for requests without one
  }
}

void read_common(Fields& fields, CommonFields& common) {
  common.model = fields.string("model", "");
  common.choices = static_cast<int>(fields.integer("n", 1, 1, kChoicesMax));
  common.stream = fields.boolean("stream", false);
  if (const ordered_json* options = fields.get("stream_options")) {
    if (!options->is_object()) {
      fields.fail_field("stream_options", fmt::format("must be an object, not {}", json_kind(*options)));
    } else {
      Fields inner(*options, fields.path_of("stream_options."));
      common.include_usage = inner.boolean("include_usage", false);
      inner.accept({"include_obfuscation"});
      if (const auto done = inner.finish(); !done)
        fields.fail_field(done.error().at.substr(fields.path_of("").size()), "is not valid");
    }
  }
  read_generate(fields, common.generate);
  // Hints that change nothing about the answer here.
  fields.accept({"user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"});
}

}  // namespace

ChatInput read_chat_input(Fields& fields) {
  ChatInput input;
  input.messages = read_messages(fields);
  input.tools = read_tools(fields);
  if (const ordered_json* variables = fields.get("chat_template_kwargs")) {
    if (!variables->is_object()) {
      fields.fail_field("chat_template_kwargs", fmt::format("must be an object, not {}", json_kind(*variables)));
    } else {
      input.variables = *variables;
    }
  }
  input.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  return input;
}

void read_generate(Fields& fields, GenerateRequest& generate) {
  read_stop(fields, generate.stop);
  read_sampling(fields, generate.sampling);
  generate.ignore_eos = fields.boolean("ignore_eos", false);
  read_service(fields, generate);
}

namespace {

// What this server cannot do, and says so.
void refuse_fields(Fields& fields) {
  fields.refuse("functions", "use tools");
  fields.refuse("function_call", "use tool_choice");
  fields.refuse("audio", "this server answers in text");
  fields.refuse("prediction", "leave it out; the answer is the same");
  fields.refuse("web_search_options", "this server does not search");
  fields.refuse("verbosity", "say in the messages how long the answer should be");
  if (const auto* format = fields.get("response_format")) {
    const bool is_text = format->is_object() && format->contains("type") && (*format)["type"] == "text";
    if (!is_text) fields.refuse("response_format", "only {\"type\": \"text\"} is available yet");
  }
  if (const auto* modalities = fields.get("modalities");
      modalities != nullptr && *modalities != ordered_json::array({"text"})) {
    fields.refuse("modalities", "only [\"text\"] is available");
  }
  if (fields.boolean("store", false)) fields.refuse("store", "nothing is stored here; leave it out");
}

}  // namespace

Result<OpenAiChatRequest> parse_chat(const ordered_json& body) {
  Fields fields(body);
  CommonFields common;
  read_common(fields, common);
  OpenAiChatRequest request;
  request.include_usage = common.include_usage;
  ChatRequest& chat = request.chat;
  chat.model = std::move(common.model);
  chat.choices = common.choices;
  chat.stream = common.stream;
  chat.generate = std::move(common.generate);
  chat.input = read_chat_input(fields);
  read_tool_choice(fields, chat);
  read_reasoning(fields, chat.reasoning);
  chat.generate.max_tokens =
      static_cast<int32_t>(read_alias(fields, "max_completion_tokens", "max_tokens", -1, 1, kTokensMax));
  chat.generate.sampling.logprobs = fields.boolean("logprobs", false);
  const auto top = fields.optional_integer("top_logprobs", 0, kTopLogprobsMax);
  chat.generate.sampling.top_logprobs = static_cast<int32_t>(top.value_or(0));
  if (top && !chat.generate.sampling.logprobs) fields.fail_field("top_logprobs", "needs logprobs: true");
  refuse_fields(fields);
  chat.stored = fields.boolean("store", true);  // what is sampled for calls: --store
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

namespace {

Result<CompletionPrompt> token_prompt(const ordered_json& ids, const std::string& path) {
  std::vector<TokenId> tokens;
  tokens.reserve(ids.size());
  for (const auto& id : ids) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() > kTokensMax) {
      return fail_at(path, Code::kInvalidArgument, "{} must hold token ids only", path);
    }
    tokens.push_back(TokenId{id.get<int32_t>()});
  }
  return tokens;
}

// A string, an array of strings, an array of token ids, or an array of those.
Result<std::vector<CompletionPrompt>> read_prompts(const ordered_json* value) {
  std::vector<CompletionPrompt> prompts;
  if (value == nullptr) return fail_at("prompt", Code::kInvalidArgument, "prompt is missing");
  if (value->is_string()) {
    prompts.emplace_back(value->get<std::string>());
    return prompts;
  }
  if (!value->is_array() || value->empty()) {
    return fail_at("prompt", Code::kInvalidArgument,
                   "prompt must be a string, an array of strings, an array of token ids or an array of such arrays");
  }
  if (value->front().is_number()) {
    CAIRN_TRY(auto tokens, token_prompt(*value, "prompt"));
    prompts.push_back(std::move(tokens));
    return prompts;
  }
  if (value->size() > kChoicesMax) {
    return fail_at("prompt", Code::kInvalidArgument, "prompt may hold at most {} prompts, not {}", kChoicesMax,
                   value->size());
  }
  for (size_t i = 0; i < value->size(); ++i) {
    const auto& item = (*value)[i];
    const std::string path = fmt::format("prompt[{}]", i);
    if (item.is_string()) {
      prompts.emplace_back(item.get<std::string>());
    } else if (item.is_array()) {
      CAIRN_TRY(auto tokens, token_prompt(item, path));
      prompts.push_back(std::move(tokens));
    } else {
      return fail_at(path, Code::kInvalidArgument, "{} must be a string or an array of token ids, not {}", path,
                     json_kind(item));
    }
  }
  return prompts;
}

}  // namespace

Result<CompletionRequest> parse_completion(const ordered_json& body) {
  Fields fields(body);
  CompletionRequest request;
  read_common(fields, request.common);
  auto& generate = request.common.generate;
  // OpenAI's default for this endpoint.
  constexpr int64_t kMaxTokensMissing = 16;
  generate.max_tokens = static_cast<int32_t>(fields.integer("max_tokens", kMaxTokensMissing, 1, kTokensMax));
  if (const auto top = fields.optional_integer("logprobs", 0, kTopLogprobsMax)) {
    generate.sampling.logprobs = true;
    generate.sampling.top_logprobs = static_cast<int32_t>(*top);
  }
  const ordered_json* prompt = fields.get("prompt");
  if (fields.boolean("echo", false)) fields.refuse("echo", "put the prompt before the answer yourself");
  fields.refuse("suffix", "filling in the middle is not available; use a prompt with the model's own fill-in tokens");
  if (fields.integer("best_of", 1, 1, kChoicesMax) != request.common.choices) {
    if (fields.get("best_of") != nullptr) fields.refuse("best_of", "use n and choose yourself");
  }
  CAIRN_TRY_VOID(fields.finish());
  CAIRN_TRY(request.prompts, read_prompts(prompt));
  if (request.prompts.size() * request.common.choices > kChoicesMax) {
    return fail_at("n", Code::kInvalidArgument, "{} prompts with n = {} make more than {} choices",
                   request.prompts.size(), request.common.choices, kChoicesMax);
  }
  return request;
}

}  // namespace cairn::api::openai
