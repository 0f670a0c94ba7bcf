#include "api/ollama/request.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "api/chat/messages.h"
#include "api/models/model_request.h"
#include "api/params/answer_form.h"
#include "api/params/generation_params.h"
#include "api/params/llama_options.h"
#include "api/params/request_fields.h"
#include "api/params/sampling_fields.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

using Names = std::vector<std::string_view>;

/// What counts beside `options`, where these have none of its names.
const std::vector<Names>& beside_options() {
  static const std::vector<Names> kAll = [] {
    std::vector<Names> all = {{"seed", "sampler_seed"},
                              Names(std::begin(kStopNames), std::end(kStopNames)),
                              Names(std::begin(kTokenLimitNames), std::end(kTokenLimitNames)),
                              {"do_sample"},
                              {"dry_sequence_breakers"},
                              {"samplers"},
                              {"logit_bias"},
                              {"allowed_token_ids"},
                              {"bad_words"},
                              {"banned_strings"}};
    for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters())
      all.push_back(names_of(parameter));
    return all;
  }();
  return kAll;
}

// Clients of several protocols put parameters beside `options`.
Result<void> read_options_beside(RequestFields& body, const ordered_json& options, engine::GenerateRequest& generate) {
  ordered_json beside = ordered_json::object();
  for (const Names& names : beside_options()) {
    const bool in_options = std::ranges::any_of(names, [&](std::string_view name) { return options.contains(name); });
    for (const std::string_view name : names) {
      const ordered_json* value = body.get(name);
      if (value != nullptr && !in_options) beside[std::string(name)] = *value;
    }
  }
  const auto off = [](const ordered_json& value) {
    return value == false || value == 0 || value == "" || (value.is_array() && value.empty());
  };
  for (const auto* name :
       {"stop_regex", "stop_token_ids", "min_tokens", "min_new_tokens", "ignore_eos", "ban_eos_token",
        "truncate_prompt_tokens", "max_length", "top_a", "include_stop_str_in_output"})
    body.only_if(name, off, "it belongs into options");
  if (beside.empty()) return {};
  if (beside.contains("num_predict") && beside["num_predict"] == 0) beside.erase("num_predict");
  RequestFields fields(body.context(), beside);
  // Nothing else is read: what `options` say, and defaults that were filled in, stay.
  read_given_sampling(fields, generate);
  if (beside.contains("seed") || beside.contains("sampler_seed")) read_seed(fields, std::nullopt, generate.sampling);
  read_stop(fields, generate.stop);
  if (std::ranges::any_of(kTokenLimitNames, [&](std::string_view name) { return beside.contains(name); }))
    generate.max_tokens = read_token_limit(fields).value_or(generate.max_tokens);
  return fields.finish();
}

Result<void> read_options(RequestFields& body, engine::GenerateRequest& generate) {
  ordered_json options = ordered_json::object();
  if (const ordered_json* given = body.get("options")) {
    if (!given->is_object()) {
      return fail_at("options", Code::kInvalidArgument, "options must be an object, not {}", json_kind(*given));
    }
    options = *given;
  }
  // Ollama takes 0 for no limit.
  if (const auto limit = options.find("num_predict"); limit != options.end() && *limit == 0) options.erase(limit);
  RequestFields fields(body.context(), options, "options.");
  read_generation_params(fields, generate);
  generate.max_tokens = read_token_limit(fields).value_or(-1);
  fields.only("penalize_newline", true, "penalties look at every token; use logit_bias");
  fields.only("embedding_only", false, "use /api/embed");
  fields.only("vocab_only", false, "the whole model is loaded");
  refuse_answer_form(fields, "use format, beside options");
  // How a model is loaded, and what of a context to keep that shifts: here it was loaded before, and nothing shifts.
  fields.accept({"num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "numa", "use_mmap",
                 "use_mlock", "low_vram", "f16_kv", "logits_all"});
  CAIRN_TRY_VOID(fields.finish());
  return read_options_beside(body, options, generate);
}

void read_think(RequestFields& fields, chat::ReasoningOptions& reasoning) {
  const ordered_json* think = fields.get("think");
  if (think == nullptr) return;
  if (think->is_boolean()) {
    reasoning.enabled = think->get<bool>();
  } else if (!think->is_string() || !set_effort(think->get_ref<const std::string&>(), reasoning)) {
    fields.reject("think", "must be true, false, \"low\", \"medium\" or \"high\"");
  }
}

// What both endpoints take.
Result<void> read_common(RequestFields& fields, ChatRequest& chat) {
  chat.model = fields.string("model", "");
  chat.stream = fields.boolean("stream", true);
  CAIRN_TRY_VOID(read_options(fields, chat.generate));
  read_template_variables(fields, chat.input.variables);
  read_thinking_objects(fields, chat.reasoning);
  read_reasoning(fields, chat.reasoning);
  read_think(fields, chat.reasoning);
  sampling::SamplingParams& sampling = chat.generate.sampling;
  sampling.logprobs = fields.boolean("logprobs", false);
  sampling.top_logprobs = static_cast<int32_t>(fields.integer("top_logprobs", 0, 0, sampling::kTopLogprobsMax));
  if (sampling.top_logprobs > 0 && !sampling.logprobs) fields.reject("top_logprobs", "needs logprobs: true");
  read_format(fields, "format", chat.form);
  refuse_answer_form(fields, "use format");
  fields.only_empty("_debug_render_only", "use POST /apply-template");
  // A prompt that does not fit is refused with both counts, whatever `truncate` says; an
  // answer ends with the context, whatever `shift` says.
  check_keep_alive(fields);
  fields.accept("truncate", "too long a prompt is refused");
  fields.accept("shift", "an answer ends with the context");
  return {};
}

/// The conversation in the form that templates know.
Result<ordered_json> check_messages(RequestContext& context, ordered_json messages) {
  const ordered_json object = {{"messages", std::move(messages)}};
  RequestFields fields(context, object);
  ordered_json read = read_messages(fields);
  CAIRN_TRY_VOID(fields.finish());
  return read;
}

// A last message of the assistant is the answer's beginning, if it is text and nothing else.
void take_prefill(ordered_json& messages, ChatRequest& chat) {
  const ordered_json& last = messages.back();
  const bool text_only = !last.contains("tool_calls") && !last.contains("reasoning_content");
  if (messages.size() < 2 || last["role"] != "assistant" || !text_only) return;
  chat.prefill = last["content"];
  if (!chat.prefill.empty() && chat.prefill.find('\0') == std::string::npos) messages.erase(messages.size() - 1);
}

}  // namespace

Result<OllamaRequest> parse_chat(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  OllamaRequest request;
  CAIRN_TRY_VOID(read_common(fields, request.chat));
  request.chat.input.tools = read_tools(fields);
  read_tool_choice(fields, request.chat);
  const ordered_json* messages = fields.get("messages");
  CAIRN_TRY_VOID(fields.finish());
  request.only_load = messages == nullptr || (messages->is_array() && messages->empty());
  if (request.only_load) return request;
  CAIRN_TRY(ordered_json converted, convert_messages(context, *messages));
  take_prefill(converted, request.chat);
  CAIRN_TRY(request.chat.input.messages, check_messages(context, std::move(converted)));
  return request;
}

Result<OllamaRequest> parse_generate(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  OllamaRequest request;
  CAIRN_TRY_VOID(read_common(fields, request.chat));
  fields.accept({"tool_choice", "parallel_tool_calls"});
  std::string prompt = fields.string("prompt", "");
  std::string system = fields.string("system", "");
  const bool raw = fields.boolean("raw", false);
  if (raw && !system.empty()) fields.reject("system", "has no place in a raw prompt; put it into the prompt");
  fields.only_empty("images", "this model reads text only");
  request.suffix = fields.string("suffix", "");
  if (!request.suffix.empty()) {
    constexpr std::string_view kNoPlace = "has no place where the middle is filled in; leave it or suffix out";
    if (raw) fields.reject("raw", std::string(kNoPlace));
    if (!system.empty()) fields.reject("system", std::string(kNoPlace));
  }
  fields.only_empty("template", "start the server with --chat-template, or use raw");
  fields.only_empty("context", "send the whole conversation to /api/chat");
  for (const auto* name : {"width", "height", "steps"}) fields.refuse(name, "this server makes text");
  CAIRN_TRY_VOID(fields.finish());
  request.only_load = prompt.empty() && request.suffix.empty();
  if (request.only_load) return request;
  if (raw || !request.suffix.empty()) {
    request.raw = std::move(prompt);
    return request;
  }
  request.chat.prompt_field = "prompt";
  auto& messages = request.chat.input.messages;
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", std::move(system)}});
  messages.push_back({{"role", "user"}, {"content", std::move(prompt)}});
  return request;
}

void check_keep_alive(RequestFields& fields) {
  const ordered_json* value = fields.get("keep_alive");
  if (value != nullptr && !read_keep_alive(*value))
    fields.reject("keep_alive", "must be a number of seconds or a time like \"5m\"");
}

}  // namespace cairn::api::ollama
