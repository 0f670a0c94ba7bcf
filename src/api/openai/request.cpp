#include "api/openai/request.h"

#include "api/chat/messages.h"
#include "api/generation.h"
#include "api/params/generation_params.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;

void read_common(RequestFields& fields, CommonFields& common) {
  common.model = fields.string("model", "");
  common.choices = static_cast<int>(fields.integer("n", 1, 1, kChoicesMax));
  common.stream = fields.boolean("stream", false);
  if (const ordered_json* options = fields.object("stream_options")) {
    RequestFields inner(*options, fields.path_of("stream_options."));
    common.include_usage = inner.boolean("include_usage", false);
    inner.accept({"include_obfuscation"});
    if (const auto done = inner.finish(); !done)
      fields.reject(done.error().at.substr(fields.path_of("").size()), "is not valid");
  }
  read_generation_params(fields, common.generate);
  // Hints that change nothing about the answer here.
  fields.accept({"user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"});
}

// What this server cannot do, and says so.
void refuse_fields(RequestFields& fields) {
  fields.refuse("functions", "use tools");
  fields.refuse("function_call", "use tool_choice");
  fields.refuse("audio", "this server answers in text");
  fields.refuse("prediction", "leave it out; the answer is the same");
  fields.refuse("web_search_options", "this server does not search");
  fields.refuse("verbosity", "say in the messages how long the answer should be");
  refuse_unless_text_format(fields, "response_format");
  if (const auto* modalities = fields.get("modalities");
      modalities != nullptr && *modalities != ordered_json::array({"text"})) {
    fields.refuse("modalities", "only [\"text\"] is available");
  }
  if (fields.boolean("store", false)) fields.refuse("store", "nothing is stored here; leave it out");
}

}  // namespace

Result<OpenAiChatRequest> parse_chat(const ordered_json& body) {
  RequestFields fields(body);
  CommonFields common;
  read_common(fields, common);
  OpenAiChatRequest request;
  request.include_usage = common.include_usage;
  ChatRequest& chat = request.chat;
  chat.model = std::move(common.model);
  chat.choices = common.choices;
  chat.stream = common.stream;
  chat.generate = std::move(common.generate);
  chat.input = read_chat_input(fields, chat.prefill);
  read_tool_choice(fields, chat);
  read_reasoning(fields, chat.reasoning);
  chat.generate.max_tokens =
      static_cast<int32_t>(fields.integer_alias("max_completion_tokens", "max_tokens", -1, 1, kTokensMax));
  chat.generate.sampling.logprobs = fields.boolean("logprobs", false);
  const auto top = fields.optional_integer("top_logprobs", 0, kTopLogprobsMax);
  chat.generate.sampling.top_logprobs = static_cast<int32_t>(top.value_or(0));
  if (top && !chat.generate.sampling.logprobs) fields.reject("top_logprobs", "needs logprobs: true");
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
    if (!is_token_id(id)) {
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
  RequestFields fields(body);
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
