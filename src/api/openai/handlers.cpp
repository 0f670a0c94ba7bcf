#include "api/openai/handlers.h"

#include <nlohmann/json.hpp>

#include "api/chat/run.h"
#include "api/errors.h"
#include "api/http/tenant.h"
#include "api/model_list.h"
#include "api/openai/chat_serializer.h"
#include "api/openai/completion_serializer.h"
#include "api/openai/request.h"
#include "api/params/choices.h"
#include "api/params/request_fields.h"
#include "api/stream/generation.h"
#include "base/system/random_id.h"
#include "base/text/utf8.h"
#include "chat/answer/form.h"
#include "chat/completion_prompt.h"
#include "chat/infill_prompt.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;

Result<void> chat(Service& service, RequestContext& context, const net::HttpRequest& http,
                  const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(OpenAiChatRequest request, parse_chat(context, body));
  OpenAiChatOptions options{.include_usage = request.include_usage,
                            .logprobs = request.chat.generate.sampling.logprobs,
                            .return_progress = request.return_progress,
                            .timings_per_token = request.timings_per_token,
                            .errors = openai_format(http.path),
                            .custom_tools = std::move(request.custom_tools),
                            .has_functions = request.has_functions};
  return run_chat(service, context, std::move(request.chat), "chatcmpl-", http, response, [&](const ChatStart& start) {
    return std::make_unique<OpenAiChatSerializer>(start, std::move(options));
  });
}

Result<std::vector<TokenId>> prompt_tokens(const LoadedModel& model, const CompletionPrompt& prompt,
                                           const CompletionRequest& request) {
  const auto* text = std::get_if<std::string>(&prompt);
  if (!request.suffix.empty()) {
    if (text == nullptr)
      return fail_at("suffix", Code::kUnsupported, "suffix is not supported with token ids; send the prompt as text");
    return infill_prompt_tokens(model.prompt_context(), {.prefix = *text, .suffix = request.suffix},
                                request.common.generate.max_tokens);
  }
  if (text == nullptr) return std::get<std::vector<TokenId>>(prompt);
  return completion_prompt_tokens(model.prompt_context(), *text);
}

std::string echo_of(const LoadedModel& model, const CompletionPrompt& prompt, std::span<const TokenId> tokens) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return utf8_replace_invalid(model.tokenizer->decode(tokens, true));
}

Result<void> completion(Service& service, RequestContext& context, const net::HttpRequest& http,
                        const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(CompletionRequest request, parse_completion(context, body));
  CAIRN_TRY(const SharedModel model, service.find_model(context, request.common.model));
  set_tenant(http, request.common.generate);
  CompletionOptions options;
  std::vector<std::vector<TokenId>> prompts;
  for (const auto& prompt : request.prompts) {
    CAIRN_TRY(auto tokens, prompt_tokens(*model, prompt, request));
    if (request.echo) options.echoed.push_back(echo_of(*model, prompt, tokens));
    prompts.push_back(std::move(tokens));
  }
  options.id = random_id("cmpl-");
  options.model = model->name;
  options.choices = static_cast<int>(prompts.size()) * request.common.choices;
  options.choices_per_prompt = request.common.choices;
  options.stream = request.common.stream;
  options.include_usage = request.common.include_usage;
  options.logprobs = request.common.generate.sampling.logprobs;
  options.return_progress = request.common.return_progress;
  options.timings_per_token = request.common.timings_per_token;
  options.errors = openai_format(http.path);
  auto requests = choice_requests(request.common.generate, options.id, std::move(prompts), request.common.choices);
  CAIRN_TRY_VOID(hold_to_form(model->chat_model(), request.form, &service.grammars(), requests));
  auto serializer = std::make_unique<CompletionSerializer>(std::move(options), *model->tokenizer);
  Generation::start(context,
                    {shared_engine(model), std::move(requests), std::move(serializer), ByteShare(service.bytes()),
                     service.listing(*model)},
                    response);
  return {};
}

// What the file says, or null.
ordered_json number_or_null(int64_t number) { return number > 0 ? ordered_json(number) : ordered_json(nullptr); }

ordered_json describe(const ListedModel& model) {
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
                        {"kind", kind_name(model.kind)},
                        {"state", state_name(model.state)},
                        {"source", source_name(model.source)},
                        {"pinned", model.pinned},
                        // llama-server's names.
                        {"status", {{"value", state_name(model.state)}}},
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

// As llama-server lists it beside "data", in Ollama's words.
ordered_json ollama_entry(const ListedModel& model) {
  ordered_json capabilities = ordered_json::array();
  const bool loaded = model.loaded != nullptr;
  if (loaded ? model.loaded->runner != nullptr : model.kind == ModelKind::kChat) capabilities.push_back("completion");
  if (loaded ? model.loaded->embedding.dimensions > 0 : model.kind == ModelKind::kEmbedding)
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

}  // namespace

void handle_chat(Service& service, RequestContext& context, const net::HttpRequest& request,
                 std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = chat(service, context, request, response); !done)
    send_error(*response, done.error(), openai_format(request.path));
}

void handle_input_tokens(Service& service, RequestContext& context, const net::HttpRequest& request,
                         std::shared_ptr<net::HttpResponse> response) {
  const auto count = [&]() -> Result<int32_t> {
    CAIRN_TRY(const ordered_json body, parse_object(request.body));
    CAIRN_TRY(OpenAiChatRequest chat, parse_chat(context, body));
    return count_chat_tokens(service, context, std::move(chat.chat), request);
  };
  const auto tokens = count();
  if (!tokens) return send_error(*response, tokens.error());
  send_json(*response, {{"input_tokens", *tokens}}, context.wanted_warnings());
}

void handle_completion(Service& service, RequestContext& context, const net::HttpRequest& request,
                       std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = completion(service, context, request, response); !done)
    send_error(*response, done.error(), openai_format(request.path));
}

void handle_models(const Service& service, const RequestContext& context, net::HttpResponse& response) {
  if (const std::string& id = context.id(); !id.empty()) {
    const auto model = find_listed(service, id, context.scope());
    return model ? send_json(response, describe(*model)) : send_error(response, model.error());
  }
  ordered_json list = {{"object", "list"}, {"data", ordered_json::array()}, {"models", ordered_json::array()}};
  for (const ListedModel& model : list_models(service, context.scope())) {
    list["data"].push_back(describe(model));
    list["models"].push_back(ollama_entry(model));
  }
  send_json(response, list);
}

}  // namespace cairn::api::openai
