#include "api/openai/request.h"

#include <algorithm>

#include "api/chat/messages.h"
#include "api/chat/tool_forms.h"
#include "api/params/answer_form.h"
#include "api/params/generation_params.h"
#include "api/params/llama_options.h"
#include "api/params/sampling_fields.h"
#include "api/stream/generation.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;

// vLLM's, which has no place in a stream there either.
void read_prompt_logprobs(RequestFields& fields, CommonFields& common) {
  if (fields.get("prompt_logprobs") == nullptr) return;
  const auto most = fields.optional_integer("prompt_logprobs", 0, sampling::kTopLogprobsMax);
  if (common.stream) fields.reject("prompt_logprobs", "has no place in a stream; leave out stream");
  common.extras.prompt_logprobs = true;
  common.generate.prompt_logprobs = static_cast<int32_t>(most.value_or(0));
}

Result<void> read_common(RequestFields& fields, CommonFields& common) {
  common.model = fields.string("model", "");
  common.choices = static_cast<int>(fields.integer("n", 1, 1, kChoicesMax));
  fields.only("best_of", common.choices, "use n and choose yourself");
  common.stream = fields.boolean("stream", false);
  if (const ordered_json* options = fields.object("stream_options")) {
    RequestFields inner(fields.context(), *options, fields.path_of("stream_options."));
    common.extras.include_usage = inner.boolean("include_usage", false);
    common.extras.continuous_usage =
        inner.boolean("continuous_usage_stats", false) && common.extras.include_usage;  // as vLLM has it
    inner.accept({"include_obfuscation"});
    CAIRN_TRY_VOID(inner.finish());
  }
  read_prompt_logprobs(fields, common);
  read_generation_params(fields, common.generate);
  read_probabilities(fields, common.generate.sampling);
  common.extras.return_token_ids = fields.boolean("return_token_ids", false);
  common.extras.return_progress = fields.boolean("return_progress", false);
  common.extras.timings_per_token = fields.boolean("timings_per_token", false);
  common.generate.reports_prefill = common.extras.return_progress || common.extras.timings_per_token;
  fields.accept({"return_tokens", "response_fields"});
  // Hints that change nothing about the answer here.
  fields.accept({"user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"});
  return {};
}

// What this server cannot do, and says so.
void refuse_fields(RequestFields& fields) {
  fields.refuse("audio", "this server answers in text");
  fields.refuse("web_search_options", "this server does not search");
  fields.only("modalities", ordered_json::array({"text"}), "only [\"text\"] is available");
  fields.only("echo", false, "the messages are the client's own; /v1/completions has echo");
  fields.only_empty("chat_template", "start the server with --chat-template");
  fields.only_empty("documents", "put the texts into the messages");
  fields.only("separate_reasoning", true, "use reasoning_format: \"none\", which leaves thinking in the content");
  fields.accept("prediction", "the answer is the same with it");
  fields.accept("verbosity", "say in the messages how long the answer should be");
}

// True asks to be found on OpenAI's pages; here it says that what is sampled for calls may be kept (--store).
bool read_store(RequestFields& fields) {
  const bool store = fields.boolean("store", true);
  if (store && fields.get("store") != nullptr) fields.tell("store", "keeps no answer that could be asked for");
  return store;
}

}  // namespace

Result<OpenAiChatRequest> parse_chat(RequestContext& context, const ordered_json& given) {
  OpenAiChatRequest request;
  if (const auto tools = given.find("tools"); tools != given.end()) request.custom_tools = custom_tool_names(*tools);
  const bool has_custom = !request.custom_tools.empty();
  if (has_custom) {
    CAIRN_TRY(request.chat.custom_inputs, custom_call_inputs(given["tools"]));
  }
  ordered_json converted = has_custom ? given : ordered_json();
  if (has_custom && converted.contains("messages")) functions_for_custom_calls(converted["messages"]);
  const ordered_json& body = has_custom ? converted : given;
  RequestFields fields(context, body);
  CommonFields common;
  CAIRN_TRY_VOID(read_common(fields, common));
  request.extras = common.extras;
  ChatRequest& chat = request.chat;
  chat.model = std::move(common.model);
  chat.choices = common.choices;
  chat.stream = common.stream;
  chat.generate = std::move(common.generate);
  ordered_json functions = read_functions(fields);
  request.has_functions = !functions.is_null();
  chat.input = read_chat_input(fields, chat.prefill, std::move(functions));
  read_tool_choice(fields, chat);
  read_function_call(fields, request.has_functions, chat);
  read_answer_form(fields, chat.form);
  read_thinking_objects(fields, chat.reasoning);
  read_reasoning(fields, chat.reasoning);
  chat.generate.max_tokens = read_token_limit(fields).value_or(-1);
  sampling::SamplingParams& sampling = chat.generate.sampling;
  sampling.logprobs = fields.boolean("logprobs", sampling.logprobs);
  const auto top = fields.optional_integer("top_logprobs", 0, sampling::kTopLogprobsMax);
  sampling.top_logprobs = static_cast<int32_t>(top.value_or(sampling.top_logprobs));
  if (top.value_or(0) > 0 && !sampling.logprobs) fields.reject("top_logprobs", "needs logprobs: true");
  refuse_fields(fields);
  chat.stored = read_store(fields);
  chat.generate.keep_on_disk = chat.generate.keep_on_disk && chat.stored;
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

namespace {

Result<CompletionPrompt> token_prompt(const ordered_json& ids, const std::string& path) {
  std::vector<TokenId> tokens;
  tokens.reserve(ids.size());
  for (const auto& id : ids) {
    if (!is_token_id(id)) {
      return fail_at(path, Code::kInvalidArgument, "{} must hold token ids only", path);
    }
    tokens.push_back(TokenId{id.get<int32_t>()});
  }
  return tokens;
}

// Reads `prompt`: a string, an array of strings, an array of token ids, or an array of such arrays.
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

Result<CompletionRequest> parse_completion(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  CompletionRequest request;
  CAIRN_TRY_VOID(read_common(fields, request.common));
  read_answer_form(fields, request.form);
  auto& generate = request.common.generate;
  // OpenAI's default for this endpoint.
  constexpr int32_t kMaxTokensMissing = 16;
  generate.max_tokens = read_token_limit(fields).value_or(kMaxTokensMissing);
  if (const auto top = fields.optional_integer("logprobs", 0, sampling::kTopLogprobsMax)) {
    generate.sampling.logprobs = true;
    generate.sampling.top_logprobs = static_cast<int32_t>(*top);
  }
  const ordered_json* prompt = fields.get("prompt");
  request.echo = fields.boolean("echo", false);
  if (request.echo && generate.sampling.logprobs) {
    generate.prompt_logprobs = std::max(generate.sampling.top_logprobs, generate.prompt_logprobs.value_or(0));
  }
  request.suffix = fields.string("suffix", "");
  if (!request.suffix.empty()) fields.refuse("truncate_prompt_tokens", "a prompt with a suffix is made to fit");
  CAIRN_TRY_VOID(fields.finish());
  CAIRN_TRY(request.prompts, read_prompts(prompt));
  if (request.prompts.size() * request.common.choices > kChoicesMax) {
    return fail_at("n", Code::kInvalidArgument, "{} prompts with n = {} make more than {} choices",
                   request.prompts.size(), request.common.choices, kChoicesMax);
  }
  return request;
}

}  // namespace cairn::api::openai
