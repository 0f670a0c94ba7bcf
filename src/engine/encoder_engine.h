/// The engine of a model that only embeds: texts of all clients, in batches, on a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/embedder.h"

namespace cairn {

struct EncoderEngineOptions {
  std::string model{};                            ///< as in EngineOptions
  int32_t queue_max = 256;                        ///< maximum waiting texts; more are refused with kQueueFull
  int32_t tenant_requests_max = 0;                ///< as in EngineOptions
  std::vector<float> adapter_scales{};            ///< as in EngineOptions
  std::function<Result<void>()> check_weights{};  ///< as in EngineOptions
};

/// submit() takes only requests with `embed`: any other is kUnsupported. `embedder` outlives the engine, which is its
/// only user. Errors: kUnavailable (no thread could be started).
Result<std::unique_ptr<Engine>> make_encoder_engine(Embedder& embedder, const EncoderEngineOptions& options);

}  // namespace cairn
