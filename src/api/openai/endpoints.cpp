// The endpoints of OpenAI's API, and those of other servers for embeddings and reranking.
#include "api/embedding/rerank.h"
#include "api/endpoint.h"
#include "api/openai/embeddings.h"
#include "api/openai/handlers.h"

namespace cairn::api::openai {

std::span<const Endpoint> endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kOpenAi;
  constexpr auto kOpenAi = ErrorFormat::kOpenAi, kLlamaCpp = ErrorFormat::kLlamaCpp;
  static constexpr Endpoint kRows[] = {
      {"POST", "/v1/chat/completions", kProtocol, kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_chat},
      {"POST", "/chat/completions", kProtocol, kLlamaCpp, kNeedsChat, kAnyKey, kWorker, handle_chat},
      {"POST", "/v1/chat/completions/input_tokens", kProtocol, kOpenAi, kNeedsChat, kAnyKey, kWorker,
       handle_input_tokens},
      {"POST", "/chat/completions/input_tokens", kProtocol, kLlamaCpp, kNeedsChat, kAnyKey, kWorker,
       handle_input_tokens},
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
  };
  return kRows;
}

}  // namespace cairn::api::openai
