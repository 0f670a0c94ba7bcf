// The endpoints of Ollama's API.
#include "api/endpoint.h"
#include "api/ollama/embed.h"
#include "api/ollama/handlers.h"
#include "api/ollama/models.h"
#include "api/ollama/pull.h"

namespace cairn::api::ollama {

std::span<const Endpoint> endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kOllama;
  constexpr auto kErrors = ErrorFormat::kOllama;
  static constexpr Needs kChat{.kind = ModelKind::kChat, .ollama = true, .instead = unload_by_chat};
  static constexpr Needs kGenerate{.kind = ModelKind::kChat, .ollama = true, .instead = unload_by_generate};
  static constexpr Needs kEmbedding{.kind = ModelKind::kEmbedding, .ollama = true};
  static constexpr Endpoint kRows[] = {
      {"POST", "/api/chat", kProtocol, kErrors, kChat, kAnyKey, kWorker, handle_chat},
      {"POST", "/api/generate", kProtocol, kErrors, kGenerate, kAnyKey, kWorker, handle_generate},
      {"POST", "/api/embed", kProtocol, kErrors, kEmbedding, kAnyKey, kWorker, handle_embed},
      {"POST", "/api/embeddings", kProtocol, kErrors, kEmbedding, kAnyKey, kWorker, handle_embeddings},
      {"GET", "/api/tags", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_tags},
      {"GET", "/api/ps", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_ps},
      {"POST", "/api/show", kProtocol, kErrors, kNeedsStart, kAnyKey, kWorker, handle_show},
      {"GET", "/api/version", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_version},
      {"POST", "/api/pull", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_pull},
      {"POST", "/api/push", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_management},
      {"POST", "/api/create", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_management},
      {"POST", "/api/copy", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_management},
      {"DELETE", "/api/delete", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_delete},
  };
  return kRows;
}

}  // namespace cairn::api::ollama
