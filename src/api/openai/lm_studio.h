/// LM Studio's REST API, which is OpenAI's with more: its lists of models, and what its answers have beside.
///
/// Source: LM Studio's documentation, "REST API v0" and "List your models" (of its v1).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/exchange.h"
#include "chat/answer/reader.h"
#include "engine/event.h"

namespace cairn::loader {
struct LoadedModel;
}  // namespace cairn::loader

namespace cairn::api::openai {

/// GET /api/v0/models and /api/v0/models/ID: all models, or the one of that name.
Result<void> handle_lm_studio_models(Exchange& exchange);
/// GET /api/v1/models: the same models in the words of the later version.
Result<void> handle_lm_studio_v1_models(Exchange& exchange);

/// What an answer below /api/v0 says of its model.
struct LmStudioModel {
  std::string architecture;
  std::string quantisation;
  int32_t context_tokens = 0;

  static LmStudioModel of(const loader::LoadedModel& model);
};

/// Why an answer ended, in LM Studio's words.
std::string_view lm_studio_stop_reason(chat::ChatFinishReason reason, bool context_full);
std::string_view lm_studio_stop_reason(const engine::Finish& finish);

/// {"stats", "model_info", "runtime"}, which stand beside `timings`.
nlohmann::ordered_json lm_studio_members(const LmStudioModel& model, const engine::Usage& usage,
                                         const engine::Timings& timings, std::string_view stop_reason);

}  // namespace cairn::api::openai
