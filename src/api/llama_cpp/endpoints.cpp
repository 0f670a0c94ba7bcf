// The endpoints of llama.cpp's server that are its own.
#include "api/endpoint.h"
#include "api/llama_cpp/handlers.h"
#include "api/tokenize_endpoints.h"

namespace cairn::api::llama_cpp {

std::span<const Endpoint> endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kLlamaCpp;
  constexpr auto kErrors = ErrorFormat::kLlamaCpp;
  static constexpr Endpoint kRows[] = {
      {"POST", "/completion", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_completion},
      {"POST", "/completions", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_completion},
      {"POST", "/infill", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_infill},
      {"GET", "/props", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_props},
      {"GET", "/slots", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_slots},
      {"POST", "/slots/{id}", kProtocol, kErrors, kNeedsStart, kAnyKey, kWorker, handle_slot_action},
      {"GET", "/lora-adapters", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_lora_adapters},
      {"POST", "/lora-adapters", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_set_lora_adapters},
      {"POST", "/tokenize", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_tokenize},
      {"POST", "/detokenize", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_detokenize},
      {"POST", "/apply-template", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_apply_template},
      // Telemetry counts these with OpenAI's endpoints, beside which clients ask for them.
      {"GET", "/v1/stream", Protocol::kOpenAi, ErrorFormat::kOpenAi, kNeedsStart, kAnyKey, kServer, handle_kept_stream},
      {"DELETE", "/v1/stream", Protocol::kOpenAi, ErrorFormat::kOpenAi, kNeedsStart, kAnyKey, kWorker,
       handle_remove_stream},
      {"POST", "/v1/streams/lookup", Protocol::kOpenAi, ErrorFormat::kOpenAi, kNeedsStart, kAnyKey, kWorker,
       handle_find_streams},
  };
  return kRows;
}

}  // namespace cairn::api::llama_cpp
