#include "api/params/llama_options.h"

#include <limits>
#include <string>

#include "api/params/generation_params.h"
#include "api/params/request_context.h"
#include "api/params/sampling_fields.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

// A number that asks for nothing.
auto number_in(double low, double high) {
  return [low, high](const ordered_json& value) {
    return value.is_number() && value.get<double>() >= low && value.get<double>() <= high;
  };
}

constexpr std::string_view kOtherFilters = "use temperature, top_k, top_p, min_p or typical_p";

/// Clients of text-generation-webui, TabbyAPI, KoboldCpp and transformers always send most of these.
void refuse_other_samplers(RequestFields& fields) {
  constexpr std::string_view kOtherPenalties = "use repetition_penalty or dry_multiplier";
  constexpr std::string_view kOrder = "use samplers, an array of names";
  for (const auto* name : {"bad_words_ids", "force_words_ids"})
    fields.only_empty(name, "use logit_bias, or hold the answer to a form: choice, regex or grammar");
  fields.only("skip_special_tokens", true, "special tokens are never part of a text; /detokenize shows them");
  fields.only("detokenize", true, "return_tokens of /completion gives the tokens beside the text");
  for (const auto* name : {"no_repeat_ngram_size", "penalty_alpha"})
    fields.only_if(name, number_in(0, 0), kOtherPenalties);
  fields.only_if("encoder_repetition_penalty", number_in(1, 1), kOtherPenalties);
  for (const auto* name : {"epsilon_cutoff", "eta_cutoff", "smoothing_factor", "top_a", "skew"})
    fields.only_if(name, number_in(0, 0), kOtherFilters);
  fields.accept("smoothing_curve", "it counts only with a smoothing_factor, which is not there");
  fields.only("dynamic_temperature", false, "use dynatemp_range");
  for (const auto* name : {"dynatemp_low", "dynatemp_high"})
    fields.accept(name, "it counts only with dynamic_temperature, which is not there");
  for (const auto* name : {"sampler_order", "sampler_priority"}) fields.only_empty(name, kOrder);
  fields.accept("temperature_last", "samplers says the order of the steps");
  fields.only_if("num_beams", number_in(0, 1), "use n and choose yourself");
  for (const auto* name : {"length_penalty", "early_stopping"})
    fields.accept(name, "it counts only with several beams, which are not there");
  for (const auto* name : {"guidance_scale", "cfg_scale"})
    fields.only_if(name, number_in(1, 1), "write into the messages what is not wanted");
  fields.accept("negative_prompt", "it counts only with a guidance_scale, which is not there");
}

void refuse_what_is_on(RequestFields& fields) {
  constexpr double kMost = std::numeric_limits<double>::max();
  constexpr std::string_view kNoWords = "name the texts in bad_words, or the tokens in logit_bias";
  for (const auto* name : {"tfs_z", "tfs"}) fields.only_if(name, number_in(1, kMost), kOtherFilters);
  fields.refuse("max_length",
                "it is read as the tokens of the answer by some servers, and with the prompt's by others: "
                "use max_tokens, which counts the answer alone");
  for (const auto* name : {"custom_logit_processor", "custom_params"})
    fields.only_empty(name, "use logit_bias, or a form: regex or grammar");
  fields.only("auto_max_new_tokens", false, "leave max_tokens out: an answer ends with the context");
  fields.only("add_bos_token", true, "send the prompt as token ids");
  fields.only_empty("image_data", "this model reads text only");
  fields.only("reasoning_in_content", false, "thinking is in a field of its own");
  fields.only_empty("banned_tokens", kNoWords);
  fields.only_empty("custom_token_bans", kNoWords);
  fields.only_empty("logits_processors", "use logit_bias, or a form: regex or grammar");
  fields.only("use_beam_search", false, "use n and choose yourself");
  fields.only("token_healing", false, "let the prompt end where a token ends");
  fields.only_empty("kv_transfer_params", "keys and values stay on this server");
  // Where an answer has a place for them, they have been read before.
  if (!fields.was_read("prompt_logprobs"))
    fields.refuse("prompt_logprobs", "use /v1/completions or /v1/chat/completions");
  fields.only("parse_tool_calls", true, "leave tools out, or read the model's text with /completion");
}

void read_adapters(RequestFields& fields, engine::GenerateRequest& generate) {
  const ordered_json* const list = fields.get("lora");
  if (list == nullptr) return;
  const std::string_view wrong = read_adapter_scales(*list, generate.adapters.emplace());
  if (!wrong.empty()) fields.reject("lora", std::string(wrong));
}

}  // namespace

std::string_view read_adapter_scales(const ordered_json& list, std::vector<engine::AdapterScale>& scales) {
  constexpr std::string_view kWrong = R"(must be an array of adapters, {"id": NUMBER, "scale": NUMBER})";
  if (!list.is_array()) return kWrong;
  for (const ordered_json& entry : list) {
    if (!entry.is_object() || !entry.contains("id") || !is_token_id(entry["id"])) return kWrong;
    engine::AdapterScale& adapter = scales.emplace_back(engine::AdapterScale{.id = entry["id"].get<int32_t>()});
    if (!entry.contains("scale")) continue;
    if (!entry["scale"].is_number()) return kWrong;
    adapter.scale = entry["scale"].get<float>();
  }
  return {};
}

void read_llama_fields(RequestFields& fields, engine::GenerateRequest& generate) {
  constexpr int64_t kTimeMsMax = 86'400'000;
  if (!fields.boolean("cache_prompt", true)) {
    // A salt that nobody else has: nothing cached is found, and nobody finds this.
    generate.salt = random_seed() | 1;
    generate.keep_on_disk = false;
  }
  const int64_t time = fields.integer("t_max_predict_ms", 0, -kTimeMsMax, kTimeMsMax);
  generate.line_time_max = std::chrono::milliseconds(std::max<int64_t>(0, time));
  generate.line_indent_min = static_cast<int32_t>(fields.integer("n_indent", 0, 0, kTokensMax));
  read_adapters(fields, generate);
  refuse_what_is_on(fields);
  refuse_other_samplers(fields);
  generate.slot = static_cast<int32_t>(fields.integer("id_slot", -1, -1, kTokensMax));
  fields.accept("n_cache_reuse", "beginnings of prompts are found again by themselves");
  for (const auto* name : {"n_keep", "n_discard"}) fields.accept(name, "an answer ends with the context");
  for (const auto* name : {"n_ctx", "max_context_length", "truncation_length"})
    fields.accept(name, "the context is as the server has been started; truncate_prompt_tokens cuts a prompt");
  fields.accept({"sse_ping_interval", "verbose", "penalize_nl", "penalty_prompt", "backend_sampling", "t_max_prompt_ms",
                 "reasoning_control", "thinking_forced_open"});
}

std::optional<int32_t> read_token_limit(RequestFields& fields) {
  std::optional<int32_t> limit;
  std::string_view first;
  for (const std::string_view name : kTokenLimitNames) {
    const auto tokens = fields.optional_integer(name, std::numeric_limits<int32_t>::min(), kTokensMax);
    if (!tokens) continue;
    const int32_t value = *tokens < 0 ? -1 : static_cast<int32_t>(*tokens);
    if (limit && value != *limit) fields.reject(name, fmt::format("contradicts {}", first));
    if (!limit) first = name;
    limit = limit.value_or(value);
  }
  return limit ? limit : fields.context().defaults().predict;
}

}  // namespace cairn::api
