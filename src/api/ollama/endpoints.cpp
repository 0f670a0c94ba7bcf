// The endpoints of Ollama's API.
#include <chrono>

#include "api/chat/run.h"
#include "api/endpoint.h"
#include "api/http/tenant.h"
#include "api/ollama/create.h"
#include "api/ollama/embed.h"
#include "api/ollama/models.h"
#include "api/ollama/pull.h"
#include "api/ollama/request.h"
#include "api/ollama/serializer.h"
#include "api/params/choices.h"
#include "api/params/prompt_cut.h"
#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"
#include "base/system/random_id.h"
#include "chat/completion_prompt.h"
#include "chat/infill_prompt.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

Result<void> check_thinking(const loader::LoadedModel& model, const chat::ReasoningOptions& options) {
  if (options.enabled != true || model.facts().thinks) return {};
  return fail_at("think", Code::kUnsupported, "\"{}\" does not support thinking; leave think out", model.name);
}

Result<void> run_raw(Exchange& exchange, const loader::SharedModel& model, OllamaRequest request,
                     ResponseOptions options) {
  engine::GenerateRequest& generate = request.chat.generate;
  set_tenant(exchange.request, generate);
  if (!request.suffix.empty() && generate.prompt_tokens_max)
    return fail_at("options.truncate_prompt_tokens", Code::kUnsupported,
                   "options.truncate_prompt_tokens is not supported: a prompt with a suffix is made to fit");
  const chat::PromptContext context = prompt_context_of(*model, generate);
  CAIRN_TRY(
      auto prompt,
      request.suffix.empty()
          ? chat::completion_prompt_tokens(context, *request.raw)
          : chat::infill_prompt_tokens(
                context,
                {.prefix = *request.raw, .suffix = request.suffix, .prefix_field = "prompt", .suffix_field = "suffix"},
                generate.max_tokens));
  if (request.suffix.empty()) cut_prompt(exchange.context, context, generate, /*keeps_beginning=*/true, prompt);
  auto requests = choice_requests(generate, random_id("ollama-"), {std::move(prompt)}, 1);
  auto serializer = std::make_unique<OllamaSerializer>(std::move(options), *model->tokenizer);
  return run_completion(exchange, model, std::move(requests), request.chat.form,
                        std::make_unique<RawPromptSerializer>(std::move(serializer)));
}

Result<void> run(Exchange& exchange, OllamaRequest request, bool generates) {
  CAIRN_TRY(const loader::SharedModel model, find_model(exchange, request.chat.model));
  ResponseOptions options;
  options.model = shown_name(exchange, request.chat.model, *model);
  options.stream = request.chat.stream;
  options.generates = generates;
  options.logprobs = request.chat.generate.sampling.logprobs;
  if (request.only_load) {
    const OllamaSerializer serializer(std::move(options), *model->tokenizer);
    const std::string_view type = serializer.streams() ? serializer.stream_format().content_type : "application/json";
    std::string body = serializer.loaded();
    add_to_first_event(body, exchange.context.wanted_warnings());
    exchange.response->send(200, type, std::move(body));
    return {};
  }
  CAIRN_TRY_VOID(check_thinking(*model, request.chat.reasoning));
  if (request.raw) return run_raw(exchange, model, std::move(request), std::move(options));
  request.chat.model = model->name;
  return run_chat(exchange, std::move(request.chat), "ollama-", [&](const ChatStart& start) {
    return std::make_unique<OllamaSerializer>(std::move(options), *start.model.tokenizer);
  });
}

Result<void> handle_chat(Exchange& exchange) {
  CAIRN_TRY(OllamaRequest request, read_body(exchange, parse_chat));
  return run(exchange, std::move(request), false);
}

Result<void> handle_generate(Exchange& exchange) {
  CAIRN_TRY(OllamaRequest request, read_body(exchange, parse_generate));
  return run(exchange, std::move(request), true);
}

/// Ollama's clients unload a model by a request without a prompt that is to keep it loaded for no time: see
/// Needs::instead. A model that is pinned is not unloaded. `empty`: the answer that the model does not give. Sent as a
/// stream of one line if the request wants a stream.
Result<bool> unload(Exchange& exchange, const ModelRequest& request, const std::string& model, ordered_json empty) {
  const bool now = request.keep_alive && request.keep_alive->time == std::chrono::milliseconds(0);
  if (!now || !request.asks_nothing) return false;
  loader::ModelManager& models = *exchange.service.models();
  const loader::ModelScope& scope = exchange.context.scope();
  const auto status = models.find_exactly(model, scope);
  if (!status || status->served->pinned) return false;
  if (!principal_of(exchange.request).may_manage()) {
    constexpr int kForbidden = 403;
    exchange.response->send(kForbidden, "application/json",
                            error_body(kForbidden, "this key may not unload models", exchange.errors));
    return true;
  }
  ordered_json value = {{"model", request.model.empty() ? model : request.model}, {"created_at", rfc3339_now()}};
  value.update(empty);
  value["done"] = true;
  value["done_reason"] = "unload";
  std::string body = dump(value);
  if (request.stream) body += '\n';
  const auto done = [response = exchange.response, body = std::move(body), stream = request.stream](auto) {
    response->send(200, stream ? "application/x-ndjson" : "application/json", body);
  };
  CAIRN_TRY_VOID(models.unload(model, scope, done));
  return true;
}

Result<bool> unload_by_chat(Exchange& exchange, const ModelRequest& request, const std::string& model) {
  return unload(exchange, request, model, {{"message", {{"role", "assistant"}, {"content", ""}}}});
}

Result<bool> unload_by_generate(Exchange& exchange, const ModelRequest& request, const std::string& model) {
  return unload(exchange, request, model, {{"response", ""}});
}

}  // namespace

std::span<const Endpoint> endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kOllama;
  constexpr auto kErrors = ErrorFormat::kOllama;
  static constexpr Needs kChat{.kind = loader::ModelKind::kChat, .ollama = true, .instead = unload_by_chat};
  static constexpr Needs kGenerate{.kind = loader::ModelKind::kChat, .ollama = true, .instead = unload_by_generate};
  static constexpr Needs kEmbedding{.kind = loader::ModelKind::kEmbedding, .ollama = true};
  static constexpr Needs kNamed{.ollama = true, .named = true};
  static constexpr Endpoint kRows[] = {
      {"POST", "/api/chat", kProtocol, kErrors, kChat, kAnyKey, kWorker, handle_chat},
      {"POST", "/api/generate", kProtocol, kErrors, kGenerate, kAnyKey, kWorker, handle_generate},
      {"POST", "/api/embed", kProtocol, kErrors, kEmbedding, kAnyKey, kWorker, handle_embed},
      {"POST", "/api/embeddings", kProtocol, kErrors, kEmbedding, kAnyKey, kWorker, handle_embeddings},
      Endpoint{"GET", "/api/tags", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_tags}.quiet(),
      Endpoint{"GET", "/api/ps", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_ps}.quiet(),
      {"POST", "/api/show", kProtocol, kErrors, kNamed, kAnyKey, kWorker, handle_show},
      Endpoint{"GET", "/api/version", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_version}.quiet(),
      {"POST", "/api/pull", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_pull},
      {"POST", "/api/push", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_push},
      {"POST", "/api/create", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_create},
      {"POST", "/api/copy", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_copy},
      {"DELETE", "/api/delete", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_delete},
  };
  return kRows;
}

}  // namespace cairn::api::ollama
