/// The engine of a model that only embeds: texts of all clients, in batches, on a thread of its own.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "model/embedder.h"

namespace cairn::engine {

/// submit() takes only requests with `embed`: any other is kUnsupported. `embedder` outlives the engine, which is its
/// only user. There are no sequences: of the options those of the cache, of steps and of speculation say nothing.
/// Errors: kUnavailable (no thread could be started).
Result<std::unique_ptr<Engine>> make_encoder_engine(model::Embedder& embedder, const EngineOptions& options);

}  // namespace cairn::engine
