#include "api/ollama/handlers.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "api/chat/run.h"
#include "api/errors.h"
#include "api/http/tenant.h"
#include "api/ollama/models.h"
#include "api/ollama/request.h"
#include "api/ollama/serializer.h"
#include "api/params/choices.h"
#include "api/params/request_context.h"
#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"
#include "base/system/random_id.h"
#include "chat/answer/form.h"
#include "chat/completion_prompt.h"
#include "chat/infill_prompt.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

Result<void> check_thinking(const LoadedModel& model, const ReasoningOptions& options) {
  if (options.enabled != true || thinks(model)) return {};
  return fail_at("think", Code::kUnsupported, "\"{}\" does not support thinking; leave think out", model.name);
}

Result<void> run_raw(Service& service, RequestContext& context, const SharedModel& shared, OllamaRequest request,
                     ResponseOptions options, const net::HttpRequest& http,
                     const std::shared_ptr<net::HttpResponse>& response) {
  const LoadedModel& model = *shared;
  GenerateRequest& generate = request.chat.generate;
  set_tenant(http, generate);
  CAIRN_TRY(auto prompt,
            request.suffix.empty()
                ? completion_prompt_tokens(model.prompt_context(), *request.raw)
                : infill_prompt_tokens(model.prompt_context(), {.prefix = *request.raw, .suffix = request.suffix},
                                       generate.max_tokens));
  auto requests = choice_requests(generate, random_id("ollama-"), {std::move(prompt)}, 1);
  CAIRN_TRY_VOID(hold_to_form(model.chat_model(), request.chat.form, &service.grammars(), requests));
  auto serializer = std::make_unique<OllamaSerializer>(std::move(options), *model.tokenizer);
  Generation::start(
      context,
      {shared_engine(shared), std::move(requests), std::make_unique<RawPromptSerializer>(std::move(serializer)),
       ByteShare(service.bytes()), service.listing(model)},
      response);
  return {};
}

Result<void> answer(Service& service, RequestContext& context, OllamaRequest request, bool generates,
                    const net::HttpRequest& http, const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const SharedModel model, find_model(service, context, request.chat.model));
  ResponseOptions options;
  options.model = shown_name(service.registry(), request.chat.model, context.scope(), *model);
  options.stream = request.chat.stream;
  options.generates = generates;
  options.logprobs = request.chat.generate.sampling.logprobs;
  if (request.only_load) {
    const OllamaSerializer serializer(std::move(options), *model->tokenizer);
    const std::string_view type = serializer.streams() ? serializer.stream_format().content_type : "application/json";
    std::string body = serializer.loaded();
    add_to_first_event(body, context.wanted_warnings());
    response->send(200, type, std::move(body));
    return {};
  }
  CAIRN_TRY_VOID(check_thinking(*model, request.chat.reasoning));
  if (request.raw) return run_raw(service, context, model, std::move(request), std::move(options), http, response);
  request.chat.model = model->name;
  return run_chat(service, context, std::move(request.chat), "ollama-", http, response, [&](const ChatStart& start) {
    return std::make_unique<OllamaSerializer>(std::move(options), *start.model.tokenizer);
  });
}

Result<void> chat(Service& service, RequestContext& context, const net::HttpRequest& http,
                  const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(OllamaRequest request, parse_chat(context, body));
  return answer(service, context, std::move(request), false, http, response);
}

Result<void> generate(Service& service, RequestContext& context, const net::HttpRequest& http,
                      const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(OllamaRequest request, parse_generate(context, body));
  return answer(service, context, std::move(request), true, http, response);
}

/// `empty`: the answer that the model does not give. Sent as a stream of one line if the request wants a stream.
Result<bool> unload(ModelManager& models, const ModelRequest& request, const std::string& model,
                    const ModelScope& scope, ordered_json empty, net::HttpResponse& response) {
  const bool now = request.keep_alive && request.keep_alive->time == std::chrono::milliseconds(0);
  if (!now || !request.asks_nothing) return false;
  const auto status = models.find_exactly(model, scope);
  if (!status || status->served->pinned) return false;
  CAIRN_TRY_VOID(models.unload(model, scope));
  ordered_json value = {{"model", request.model.empty() ? model : request.model}, {"created_at", rfc3339_now()}};
  value.update(empty);
  value["done"] = true;
  value["done_reason"] = "unload";
  std::string body = dump(value);
  if (request.stream) body += '\n';
  response.send(200, request.stream ? "application/x-ndjson" : "application/json", std::move(body));
  return true;
}

}  // namespace

Result<bool> unload_by_chat(ModelManager& models, const ModelRequest& request, const std::string& model,
                            const ModelScope& scope, net::HttpResponse& response) {
  return unload(models, request, model, scope, {{"message", {{"role", "assistant"}, {"content", ""}}}}, response);
}

Result<bool> unload_by_generate(ModelManager& models, const ModelRequest& request, const std::string& model,
                                const ModelScope& scope, net::HttpResponse& response) {
  return unload(models, request, model, scope, {{"response", ""}}, response);
}

void handle_chat(Service& service, RequestContext& context, const net::HttpRequest& request,
                 std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = chat(service, context, request, response); !done)
    send_error(*response, done.error(), ErrorFormat::kOllama);
}

void handle_generate(Service& service, RequestContext& context, const net::HttpRequest& request,
                     std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = generate(service, context, request, response); !done)
    send_error(*response, done.error(), ErrorFormat::kOllama);
}

}  // namespace cairn::api::ollama
