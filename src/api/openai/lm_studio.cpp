#include "api/openai/lm_studio.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "api/model_list.h"
#include "base/version.h"
#include "loader/loaded_model.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

/// LM Studio knows two kinds: whatever writes no text is one for embeddings, so that clients do not chat with it.
bool writes_text(const ListedModel& model) { return loader::answers(model.kind, loader::ModelKind::kChat); }

/// ORG of ORG/REPO:Q4_K_M; empty: the name says nobody.
std::string publisher_of(const ListedModel& model) {
  const size_t slash = model.name.find('/');
  return slash == std::string::npos ? std::string() : model.name.substr(0, slash);
}

/// What the model was trained for, or else what it is served with.
int64_t longest_context(const ListedModel& model) {
  return model.context_tokens > 0 ? model.context_tokens : model.served_context;
}

ordered_json entry(const ListedModel& model) {
  const bool loaded = model.loaded != nullptr;
  ordered_json value = {{"id", model.name},
                        {"object", "model"},
                        {"type", writes_text(model) ? "llm" : "embeddings"},
                        {"publisher", publisher_of(model)},
                        {"arch", model.architecture},
                        {"compatibility_type", "gguf"},
                        {"quantization", model.quantisation},
                        {"state", loaded ? "loaded" : "not-loaded"},
                        {"max_context_length", longest_context(model)}};
  if (loaded) value["loaded_context_length"] = model.served_context;
  value["capabilities"] = ordered_json::array();
  if (writes_text(model)) value["capabilities"].push_back("tool_use");
  return value;
}

/// Rounded to hundredths; null where the number of parameters is not known.
ordered_json bits_per_weight(const ListedModel& model) {
  constexpr double kBits = 8, kHundredths = 100;
  if (model.parameters <= 0) return nullptr;
  const double bits = kBits * static_cast<double>(model.file_bytes) / static_cast<double>(model.parameters);
  return std::round(bits * kHundredths) / kHundredths;
}

ordered_json v1_entry(const ListedModel& model) {
  ordered_json value = {{"type", writes_text(model) ? "llm" : "embedding"},
                        {"publisher", publisher_of(model)},
                        {"key", model.name},
                        {"display_name", model.name},
                        {"architecture", model.architecture},
                        {"quantization", {{"name", model.quantisation}, {"bits_per_weight", bits_per_weight(model)}}},
                        {"size_bytes", model.file_bytes},
                        {"params_string", human_number(model.parameters)},
                        {"loaded_instances", ordered_json::array()},
                        {"max_context_length", longest_context(model)},
                        {"format", "gguf"}};
  if (model.loaded != nullptr)
    value["loaded_instances"].push_back({{"id", model.name}, {"config", {{"context_length", model.served_context}}}});
  if (!writes_text(model)) return value;
  value["capabilities"] = {{"vision", false}, {"trained_for_tool_use", true}};
  value["description"] = nullptr;
  return value;
}

ordered_json entries(const Exchange& exchange, ordered_json (*make_entry)(const ListedModel& model)) {
  ordered_json list = ordered_json::array();
  for (const ListedModel& model : list_models(exchange.service, exchange.context.scope(), Reading::kNothing))
    list.push_back(make_entry(model));
  return list;
}

}  // namespace

Result<void> handle_lm_studio_models(Exchange& exchange) {
  if (const std::string& id = exchange.context.id(); !id.empty()) {
    CAIRN_TRY(const ListedModel model, find_listed(exchange.service, id, exchange.context.scope(), Reading::kNothing));
    return send_json(exchange, entry(model));
  }
  return send_json(exchange, {{"object", "list"}, {"data", entries(exchange, entry)}});
}

Result<void> handle_lm_studio_v1_models(Exchange& exchange) {
  return send_json(exchange, {{"models", entries(exchange, v1_entry)}});
}

LmStudioModel LmStudioModel::of(const loader::LoadedModel& model) {
  return {.architecture = model.architecture,
          .quantisation = model.quantisation,
          .context_tokens = model.engine->context_tokens()};
}

std::string_view lm_studio_stop_reason(chat::ChatFinishReason reason, bool context_full) {
  switch (reason) {
    case chat::ChatFinishReason::kStop:
      break;
    case chat::ChatFinishReason::kStopString:
      return "stopStringFound";
    case chat::ChatFinishReason::kToolCalls:
      return "toolCalls";
    case chat::ChatFinishReason::kCancelled:
      return "userStopped";
    case chat::ChatFinishReason::kLength:
      return context_full ? "contextLengthReached" : "maxPredictedTokensReached";
    case chat::ChatFinishReason::kRepetition:  // what OpenAI's clients are told is a length
    case chat::ChatFinishReason::kCutCall:
      return "maxPredictedTokensReached";
  }
  return "eosFound";
}

std::string_view lm_studio_stop_reason(const engine::Finish& finish) {
  using enum chat::ChatFinishReason;
  switch (finish.reason) {
    case engine::FinishReason::kStop:
      return lm_studio_stop_reason(finish.stop.empty() ? kStop : kStopString, false);
    case engine::FinishReason::kLength:
      return lm_studio_stop_reason(kLength, finish.context_full);
    case engine::FinishReason::kRepetition:
      return lm_studio_stop_reason(kRepetition, false);
    case engine::FinishReason::kCancelled:
      return lm_studio_stop_reason(kCancelled, false);
    case engine::FinishReason::kError:
      break;
  }
  return "failed";
}

ordered_json lm_studio_members(const LmStudioModel& model, const engine::Usage& usage, const engine::Timings& timings,
                               std::string_view stop_reason) {
  const double first = seconds(timings.queue + timings.prefill), rest = seconds(timings.decode);
  const int32_t behind_first = std::max(0, usage.completion_tokens - 1);
  return {{"stats",
           {{"tokens_per_second", rest > 0 ? behind_first / rest : 0.0},
            {"time_to_first_token", first},
            {"generation_time", first + rest},
            {"stop_reason", stop_reason}}},
          {"model_info",
           {{"arch", model.architecture},
            {"quant", model.quantisation},
            {"format", "gguf"},
            {"context_length", model.context_tokens}}},
          {"runtime", {{"name", "cairn"}, {"version", kVersion}, {"supported_formats", {"gguf"}}}}};
}

}  // namespace cairn::api::openai
