// What models there are, in the words of OpenAI's and Anthropic's clients, which share the paths; and loading them.
#include "api/anthropic/models.h"
#include "api/endpoint.h"
#include "api/model_list.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

/// The number that the file says, or null.
ordered_json number_or_null(int64_t number) { return number > 0 ? ordered_json(number) : ordered_json(nullptr); }

ordered_json openai_entry(const ListedModel& model) {
  ordered_json value = {{"id", model.name},
                        {"aliases", model.aliases},
                        {"object", "model"},
                        {"created", model.modified_unix_s},
                        {"owned_by", "cairn"},
                        {"context_length", model.context()},
                        {"architecture", model.architecture},
                        {"quantization", model.quantisation},
                        {"parameters", model.parameters},
                        {"size_bytes", model.file_bytes},
                        {"kind", loader::kind_name(model.kind)},
                        {"state", loader::state_name(model.state)},
                        {"source", loader::source_name(model.source)},
                        {"pinned", model.pinned},
                        // llama-server's names.
                        {"status", {{"value", loader::state_name(model.state)}}},
                        {"meta",
                         {{"n_vocab", model.vocabulary},
                          {"n_ctx", model.context()},
                          {"n_ctx_train", number_or_null(model.context_tokens)},
                          {"n_embd", number_or_null(model.width)},
                          {"n_params", model.parameters},
                          {"size", model.file_bytes}}}};
  if (!model.error.empty()) {
    value["error"] = model.error;
    value["status"]["failed"] = true;
  }
  return value;
}

/// The model as llama-server lists it beside "data", in Ollama's words.
ordered_json ollama_entry(const ListedModel& model) {
  ordered_json capabilities = ordered_json::array();
  const bool loaded = model.loaded != nullptr;
  if (loaded ? model.loaded->runner != nullptr : model.kind == loader::ModelKind::kChat)
    capabilities.push_back("completion");
  if (loaded ? model.loaded->embedding.dimensions > 0 : model.kind == loader::ModelKind::kEmbedding)
    capabilities.push_back("embedding");
  return {{"name", model.name},
          {"model", model.name},
          {"modified_at", ""},
          {"size", model.file_bytes},
          {"digest", ""},
          {"type", "model"},
          {"description", ""},
          {"tags", ordered_json::array()},
          {"capabilities", std::move(capabilities)},
          {"parameters", ""},
          {"details",
           {{"parent_model", ""},
            {"format", "gguf"},
            {"family", model.architecture},
            {"families", {model.architecture}},
            {"parameter_size", ""},
            {"quantization_level", model.quantisation}}}};
}

/// All of them where the path has no id.
Result<void> handle_models(Exchange& exchange) {
  if (anthropic::speaks_anthropic(exchange.request)) {
    exchange.errors = ErrorFormat::kAnthropic;
    return anthropic::handle_models(exchange);
  }
  const loader::ModelScope& scope = exchange.context.scope();
  if (const std::string& id = exchange.context.id(); !id.empty()) {
    CAIRN_TRY(const ListedModel model, find_listed(exchange.service, id, scope));
    return send_json(exchange, openai_entry(model));
  }
  ordered_json list = {{"object", "list"}, {"data", ordered_json::array()}, {"models", ordered_json::array()}};
  for (const ListedModel& model : list_models(exchange.service, scope)) {
    list["data"].push_back(openai_entry(model));
    list["models"].push_back(ollama_entry(model));
  }
  return send_json(exchange, list);
}

Result<std::string> parse_model_name(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  std::string name = fields.string("model", "");
  if (name.empty()) fields.reject("model", "is missing");
  CAIRN_TRY_VOID(fields.finish());
  return name;
}

using Change = Result<void> (loader::ModelManager::*)(std::string_view name, const loader::ModelScope& scope);

/// POST /v1/models/load and /v1/models/unload, and llama-server's without the /v1: {"model": NAME}.
Result<void> change(Exchange& exchange, Change what) {
  CAIRN_TRY(const std::string name, read_body(exchange, parse_model_name));
  loader::ModelManager* const models = exchange.service.models();
  if (models == nullptr) return fail(Code::kUnsupported, "this server's models stay as they are");
  CAIRN_TRY_VOID((models->*what)(name, exchange.context.scope()));
  CAIRN_TRY(const loader::ModelStatus status, models->find_exactly(name, exchange.context.scope()));
  return send_json(exchange,
                   {{"success", true}, {"model", status.model().name}, {"state", loader::state_name(status.state)}});
}

/// The load is begun and not waited for.
Result<void> handle_load(Exchange& exchange) { return change(exchange, &loader::ModelManager::load); }

/// The model ends what it answers.
Result<void> handle_unload(Exchange& exchange) { return change(exchange, &loader::ModelManager::unload); }

}  // namespace

std::span<const Endpoint> model_endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kOpenAi;
  constexpr auto kOpenAi = ErrorFormat::kOpenAi, kLlamaCpp = ErrorFormat::kLlamaCpp;
  static constexpr Endpoint kRows[] = {
      {"GET", "/v1/models", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_models},
      {"GET", "/models", kProtocol, kLlamaCpp, kNeedsStart, kAnyKey, kServer, handle_models},
      {"GET", "/v1/models/{id...}", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kServer, handle_models},
      {"POST", "/v1/models/load", kProtocol, kOpenAi, kNeedsStart, kManagingKey, kWorker, handle_load},
      {"POST", "/models/load", kProtocol, kLlamaCpp, kNeedsStart, kManagingKey, kWorker, handle_load},
      {"POST", "/v1/models/unload", kProtocol, kOpenAi, kNeedsStart, kManagingKey, kWorker, handle_unload},
      {"POST", "/models/unload", kProtocol, kLlamaCpp, kNeedsStart, kManagingKey, kWorker, handle_unload},
  };
  return kRows;
}

}  // namespace cairn::api
