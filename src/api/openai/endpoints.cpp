// The endpoints of OpenAI's API, LM Studio's, which are OpenAI's with more, and those of other servers for embeddings
// and reranking.
#include <optional>
#include <string>
#include <string_view>

#include "api/chat/run.h"
#include "api/embedding/rerank.h"
#include "api/endpoint.h"
#include "api/http/tenant.h"
#include "api/openai/chat_serializer.h"
#include "api/openai/completion_serializer.h"
#include "api/openai/embeddings.h"
#include "api/openai/lm_studio.h"
#include "api/openai/request.h"
#include "api/params/choices.h"
#include "api/params/prompt_cut.h"
#include "base/system/random_id.h"
#include "base/text/utf8.h"
#include "chat/completion_prompt.h"
#include "chat/infill_prompt.h"

namespace cairn::api::openai {
namespace {

/// Whose answers have the same form: LM Studio's say more.
enum class Shape { kOpenAi, kLmStudio };

Result<void> answer_chat(Exchange& exchange, Shape shape) {
  CAIRN_TRY(OpenAiChatRequest request, read_body(exchange, parse_chat));
  OpenAiChatOptions options{.extras = request.extras,
                            .logprobs = request.chat.generate.sampling.logprobs,
                            .custom_tools = std::move(request.custom_tools),
                            .has_functions = request.has_functions};
  return run_chat(exchange, std::move(request.chat), "chatcmpl-", [&](const ChatStart& start) {
    if (shape == Shape::kLmStudio) options.lm_studio = LmStudioModel::of(start.model);
    return std::make_unique<OpenAiChatSerializer>(start, std::move(options));
  });
}

Result<void> handle_chat(Exchange& exchange) { return answer_chat(exchange, Shape::kOpenAi); }
Result<void> handle_lm_studio_chat(Exchange& exchange) { return answer_chat(exchange, Shape::kLmStudio); }

/// How many tokens the prompt would have.
Result<void> handle_count_tokens(Exchange& exchange) {
  CAIRN_TRY(OpenAiChatRequest request, read_body(exchange, parse_chat));
  CAIRN_TRY(const int32_t tokens, count_chat_tokens(exchange, std::move(request.chat)));
  return send_json(exchange, {{"input_tokens", tokens}});
}

Result<std::vector<TokenId>> prompt_tokens(RequestContext& context, const loader::LoadedModel& model,
                                           const CompletionPrompt& prompt, const CompletionRequest& request,
                                           const std::string& path) {
  const engine::GenerateRequest& generate = request.common.generate;
  const auto* text = std::get_if<std::string>(&prompt);
  if (!request.suffix.empty()) {
    if (text == nullptr)
      return fail_at("suffix", Code::kUnsupported, "suffix is not supported with token ids; send the prompt as text");
    return chat::infill_prompt_tokens(
        model.prompt_context(),
        {.prefix = *text, .suffix = request.suffix, .prefix_field = path, .suffix_field = "suffix"},
        generate.max_tokens);
  }
  const chat::PromptContext prompts = prompt_context_of(model, generate);
  std::vector<TokenId> tokens;
  if (text == nullptr) {
    tokens = std::get<std::vector<TokenId>>(prompt);
  } else {
    CAIRN_TRY(tokens, chat::completion_prompt_tokens(prompts, *text, path));
  }
  cut_prompt(context, prompts, generate, /*keeps_beginning=*/text != nullptr, tokens);
  return tokens;
}

/// Each choice scores its prompt anew. `prompt_tokens`: of all prompts.
Result<void> check_scores(const CommonFields& common, int64_t prompt_tokens) {
  const std::optional<int32_t> top = common.generate.prompt_logprobs;
  const int64_t scores = prompt_tokens * common.choices * (1 + top.value_or(0));
  if (!top || scores <= engine::kPromptScoresMax) return {};
  const std::string_view field = common.extras.prompt_logprobs ? "prompt_logprobs" : "logprobs";
  return fail_at(
      std::string(field), Code::kInvalidArgument,
      "{}: {} tokens of prompts, each with the {} most likely ones and for {} choices, have {} "
      "log-probabilities; one request may ask for {}: send fewer prompts at a time, or ask for fewer of each",
      field, prompt_tokens, *top, common.choices, scores, engine::kPromptScoresMax);
}

// The prompt's text as it was given, unless it may have been cut.
std::string echo_of(const loader::LoadedModel& model, const CompletionPrompt& prompt, bool may_be_cut,
                    std::span<const TokenId> tokens) {
  if (const auto* text = std::get_if<std::string>(&prompt); text != nullptr && !may_be_cut) return *text;
  return utf8_replace_invalid(model.tokenizer->decode(tokens, true));
}

Result<void> answer_completion(Exchange& exchange, Shape shape) {
  CAIRN_TRY(CompletionRequest request, read_body(exchange, parse_completion));
  CAIRN_TRY(const loader::SharedModel model, exchange.service.find_model(exchange.context, request.common.model));
  set_tenant(exchange.request, request.common.generate);
  CompletionOptions options;
  std::vector<std::vector<TokenId>> prompts;
  options.extras = request.common.extras;
  for (const auto& prompt : request.prompts) {
    const std::string path = prompt_path("prompt", prompts.size(), request.prompts.size());
    CAIRN_TRY(auto tokens, prompt_tokens(exchange.context, *model, prompt, request, path));
    const bool may_be_cut = request.common.generate.prompt_tokens_max.has_value();
    if (request.echo) options.echoed.push_back(echo_of(*model, prompt, may_be_cut, tokens));
    options.prompt_tokens += static_cast<int32_t>(tokens.size());
    if (options.extras.return_token_ids) options.prompts.push_back(tokens);
    prompts.push_back(std::move(tokens));
  }
  CAIRN_TRY_VOID(check_scores(request.common, options.prompt_tokens));
  options.id = random_id("cmpl-");
  options.model = model->name;
  options.choices = static_cast<int>(prompts.size()) * request.common.choices;
  options.choices_per_prompt = request.common.choices;
  options.stream = request.common.stream;
  options.logprobs = request.common.generate.sampling.logprobs;
  options.top_logprobs = request.common.generate.sampling.top_logprobs;
  if (shape == Shape::kLmStudio) options.lm_studio = LmStudioModel::of(*model);
  auto requests = choice_requests(request.common.generate, options.id, std::move(prompts), request.common.choices);
  return run_completion(exchange, model, std::move(requests), request.form,
                        std::make_unique<CompletionSerializer>(std::move(options), *model->tokenizer));
}

Result<void> handle_completion(Exchange& exchange) { return answer_completion(exchange, Shape::kOpenAi); }
Result<void> handle_lm_studio_completion(Exchange& exchange) { return answer_completion(exchange, Shape::kLmStudio); }

}  // namespace

std::span<const Endpoint> endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kOpenAi, kLmStudio = Protocol::kLmStudio;
  constexpr auto kOpenAi = ErrorFormat::kOpenAi, kLlamaCpp = ErrorFormat::kLlamaCpp;
  static constexpr Endpoint kRows[] = {
      {"POST", "/v1/chat/completions", kProtocol, kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_chat},
      {"POST", "/chat/completions", kProtocol, kLlamaCpp, kNeedsChat, kAnyKey, kWorker, handle_chat},
      {"POST", "/v1/chat/completions/input_tokens", kProtocol, kOpenAi, kNeedsChat, kAnyKey, kWorker,
       handle_count_tokens},
      {"POST", "/chat/completions/input_tokens", kProtocol, kLlamaCpp, kNeedsChat, kAnyKey, kWorker,
       handle_count_tokens},
      {"POST", "/v1/completions", kProtocol, kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_completion},
      {"POST", "/v1/embeddings", kProtocol, kOpenAi, kNeedsEmbedding, kAnyKey, kWorker, handle_embeddings},
      {"POST", "/embedding", kProtocol, kLlamaCpp, kNeedsEmbedding, kAnyKey, kWorker, handle_native_embeddings},
      {"POST", "/embeddings", kProtocol, kLlamaCpp, kNeedsEmbedding, kAnyKey, kWorker, handle_native_embeddings},
      {"POST", "/embed", kProtocol, kLlamaCpp, kNeedsEmbedding, kAnyKey, kWorker, handle_tei_embed},
      {"POST", "/v1/rerank", kProtocol, kOpenAi, kNeedsReranking, kAnyKey, kWorker, handle_rerank},
      {"POST", "/rerank", kProtocol, kLlamaCpp, kNeedsReranking, kAnyKey, kWorker, handle_rerank},
      {"POST", "/v1/reranking", kProtocol, kOpenAi, kNeedsReranking, kAnyKey, kWorker, handle_rerank},
      {"POST", "/reranking", kProtocol, kLlamaCpp, kNeedsReranking, kAnyKey, kWorker, handle_rerank},
      {"POST", "/v2/rerank", kProtocol, kLlamaCpp, kNeedsReranking, kAnyKey, kWorker, handle_rerank},
      Endpoint{"GET", "/api/v0/models", kLmStudio, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_lm_studio_models}
          .quiet(),
      Endpoint{"GET", "/api/v0/models/{id...}", kLmStudio, kOpenAi, kNeedsStart, kAnyKey, kServer,
               handle_lm_studio_models}
          .quiet(),
      Endpoint{"GET", "/api/v1/models", kLmStudio, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_lm_studio_v1_models}
          .quiet(),
      {"POST", "/api/v0/chat/completions", kLmStudio, kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_lm_studio_chat},
      {"POST", "/api/v0/completions", kLmStudio, kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_lm_studio_completion},
      {"POST", "/api/v0/embeddings", kLmStudio, kOpenAi, kNeedsEmbedding, kAnyKey, kWorker, handle_embeddings},
  };
  return kRows;
}

}  // namespace cairn::api::openai
