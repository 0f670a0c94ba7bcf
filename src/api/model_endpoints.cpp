// What models there are, in the words of OpenAI's and Anthropic's clients, which share the paths; and loading them.
#include <algorithm>

#include "api/access/principal.h"
#include "api/anthropic/models.h"
#include "api/endpoint.h"
#include "api/model_list.h"
#include "api/serialization/json_text.h"
#include "base/system/machine.h"
#include "base/system/memory_bandwidth.h"
#include "loader/proposals.h"

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
                        {"context_length", model.served_context},
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
                          {"n_ctx", model.served_context},
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
  if (!model.encoder) capabilities.push_back("completion");
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

/// What whoever asks may do with models here, by the last word of the path that does it: the page shows no other
/// button.
ordered_json actions_of(const Exchange& exchange) {
  ordered_json actions = ordered_json::array();
  if (!principal_of(exchange.request).may_manage()) return actions;
  if (exchange.service.models() != nullptr) actions = {"load", "unload"};
  if (exchange.service.pulls().settings() != nullptr)
    for (const auto* action : {"pull", "delete"}) actions.push_back(action);
  return actions;
}

/// All of them where the path has no id.
Result<void> handle_models(Exchange& exchange) {
  if (anthropic::speaks_anthropic(exchange.request)) {
    exchange.errors = ErrorFormat::kAnthropic;
    return anthropic::handle_models(exchange);
  }
  const loader::ModelScope& scope = exchange.context.scope();
  if (const std::string& id = exchange.context.id(); !id.empty()) {
    CAIRN_TRY(const ListedModel model, find_listed(exchange.service, id, scope, Reading::kHeaders));
    return send_json(exchange, openai_entry(model));
  }
  ordered_json list = {{"object", "list"}, {"data", ordered_json::array()}, {"models", ordered_json::array()}};
  for (const ListedModel& model : list_models(exchange.service, scope, Reading::kHeaders)) {
    list["data"].push_back(openai_entry(model));
    list["models"].push_back(ollama_entry(model));
  }
  list["actions"] = actions_of(exchange);
  return send_json(exchange, list);
}

/// Answers on the server's thread if no file has to be read for that.
Result<bool> try_models(Exchange& exchange) {
  const loader::ModelScope& scope = exchange.context.scope();
  const std::string& id = exchange.context.id();
  if (exchange.service.models() != nullptr && exchange.service.models()->empty()) return false;  // worth another look
  if (!id.empty() && !find_listed(exchange.service, id, scope, Reading::kNothing)) return false;
  if (!knows_models(exchange.service, scope)) return false;
  CAIRN_TRY_VOID(handle_models(exchange));
  return true;
}

ordered_json to_json(const loader::Proposal& proposal) {
  const double speed = proposal.tokens_per_second;
  return {{"name", proposal.model.name},
          {"size_bytes", proposal.model.file_bytes},
          {"memory_bytes", proposal.model.memory_bytes},
          {"tokens_per_second", speed > 0 ? ordered_json(speed) : ordered_json(nullptr)},
          {"good_for", proposal.model.good_for},
          {"fits", loader::fit_name(proposal.fit)}};
}

/// GET /v1/proposals: models to begin with. The first request waits until the memory's speed is measured.
Result<void> handle_proposals(Exchange& exchange) {
  int64_t available = available_memory_bytes();
  if (const auto* const models = exchange.service.models())
    available = std::min(available, models->memory().bytes_max());
  const int64_t bandwidth = memory_bandwidth();
  ordered_json list = {{"object", "list"},
                       {"data", ordered_json::array()},
                       {"available_bytes", available},
                       {"bandwidth_bytes_per_second", number_or_null(bandwidth)},
                       {"pull", exchange.service.pulls().settings() != nullptr}};
  for (const loader::Proposal& proposal : loader::proposals(available, bandwidth))
    list["data"].push_back(to_json(proposal));
  return send_json(exchange, list);
}

Result<std::string> parse_model_name(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  std::string name = fields.string("model", "");
  if (name.empty()) fields.reject("model", "is missing");
  CAIRN_TRY_VOID(fields.finish());
  return name;
}

Result<loader::ModelManager*> manager_of(const Exchange& exchange) {
  if (loader::ModelManager* const models = exchange.service.models()) return models;
  return fail(Code::kUnsupported, "this server's models stay as they are");
}

ordered_json change_json(const std::string& model, loader::ModelState state) {
  return {{"success", true}, {"model", model}, {"state", loader::state_name(state)}};
}

/// POST /v1/models/load, and llama-server's without the /v1: {"model": NAME}. The load is begun and not waited for.
Result<void> handle_load(Exchange& exchange) {
  CAIRN_TRY(const std::string name, read_body(exchange, parse_model_name));
  CAIRN_TRY(loader::ModelManager * models, manager_of(exchange));
  CAIRN_TRY_VOID(models->load(name, exchange.context.scope()));
  CAIRN_TRY(const loader::ModelStatus status, models->find_exactly(name, exchange.context.scope()));
  return send_json(exchange, change_json(status.model().name, status.state));
}

/// POST /v1/models/unload, and without the /v1. The model ends what it answers; one that is being loaded leaves once it
/// is, and is answered then.
Result<void> handle_unload(Exchange& exchange) {
  CAIRN_TRY(const std::string name, read_body(exchange, parse_model_name));
  CAIRN_TRY(loader::ModelManager * models, manager_of(exchange));
  CAIRN_TRY(const loader::ModelStatus status, models->find_exactly(name, exchange.context.scope()));
  const auto done = [response = exchange.response, model = status.model().name,
                     warnings = exchange.context.wanted_warnings()](loader::ModelState state) {
    response->send(200, "application/json", with_warnings(dump(change_json(model, state)), warnings));
  };
  return models->unload(name, exchange.context.scope(), done);
}

}  // namespace

std::span<const Endpoint> model_endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kOpenAi;
  constexpr auto kOpenAi = ErrorFormat::kOpenAi, kLlamaCpp = ErrorFormat::kLlamaCpp;
  static constexpr Endpoint kRows[] = {
      Endpoint{"GET", "/v1/models", kProtocol, kOpenAi, kNeedsNamed, kAnyKey, kWorker, handle_models, try_models}
          .quiet(),
      Endpoint{"GET", "/models", kProtocol, kLlamaCpp, kNeedsNamed, kAnyKey, kWorker, handle_models, try_models}
          .quiet(),
      Endpoint{"GET", "/v1/models/{id...}", kProtocol, kOpenAi, kNeedsNamed, kAnyKey, kWorker, handle_models,
               try_models}
          .quiet(),
      Endpoint{"GET", "/v1/proposals", kProtocol, kOpenAi, kNeedsStart, kManagingKey, kWorker, handle_proposals}
          .quiet(),
      {"POST", "/v1/models/load", kProtocol, kOpenAi, kNeedsNamed, kManagingKey, kWorker, handle_load},
      {"POST", "/models/load", kProtocol, kLlamaCpp, kNeedsNamed, kManagingKey, kWorker, handle_load},
      {"POST", "/v1/models/unload", kProtocol, kOpenAi, kNeedsNamed, kManagingKey, kWorker, handle_unload},
      {"POST", "/models/unload", kProtocol, kLlamaCpp, kNeedsNamed, kManagingKey, kWorker, handle_unload},
  };
  return kRows;
}

}  // namespace cairn::api
