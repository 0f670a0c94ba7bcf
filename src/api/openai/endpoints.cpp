// The endpoints of OpenAI's API, LM Studio's, which are OpenAI's with more, and those of other servers for embeddings
// and reranking.
#include <utility>

#include "api/chat/run.h"
#include "api/embedding/rerank.h"
#include "api/endpoint.h"
#include "api/http/tenant.h"
#include "api/openai/chat_serializer.h"
#include "api/openai/completion_prompts.h"
#include "api/openai/completion_serializer.h"
#include "api/openai/embeddings.h"
#include "api/openai/lm_studio.h"
#include "api/openai/request.h"

namespace cairn::api::openai {
namespace {

/// Whose answers have the same form: LM Studio's say more.
enum class Shape { kOpenAi, kLmStudio };

Result<void> answer_chat(Exchange& exchange, Shape shape) {
  CAIRN_TRY(OpenAiChatRequest request, read_body(exchange, parse_chat));
  OpenAiChatOptions options = OpenAiChatOptions::of(request);
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

Result<void> answer_completion(Exchange& exchange, Shape shape) {
  CAIRN_TRY(CompletionRequest request, read_body(exchange, parse_completion));
  CAIRN_TRY(const loader::SharedModel model, exchange.service.find_model(exchange.context, request.common.model));
  set_tenant(exchange.request, request.common.generate);
  CAIRN_TRY(PreparedCompletion prepared, prepare_prompts(exchange.context, *model, request));
  if (shape == Shape::kLmStudio) prepared.options.lm_studio = LmStudioModel::of(*model);
  return run_completion(exchange, model, std::move(prepared.requests), request.form,
                        std::make_unique<CompletionSerializer>(std::move(prepared.options), *model->tokenizer));
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
