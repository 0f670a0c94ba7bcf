#include "api/llama_cpp/handlers.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "api/errors.h"
#include "api/http/tenant.h"
#include "api/llama_cpp/request.h"
#include "api/llama_cpp/serializer.h"
#include "api/params/choices.h"
#include "api/params/llama_options.h"
#include "api/params/request_fields.h"
#include "api/stream/generation.h"
#include "base/log.h"
#include "base/system/random_id.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/utf8.h"
#include "base/version.h"
#include "chat/answer/form.h"
#include "chat/completion_prompt.h"

namespace cairn::api::llama_cpp {
namespace {

using nlohmann::ordered_json;

// Only a prompt that begins with text gets the beginning token: who sends ids has put it there.
Result<std::vector<TokenId>> prompt_tokens(const LoadedModel& model, const MixedPrompt& prompt) {
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt[i])) {
      tokens.insert(tokens.end(), ids->begin(), ids->end());
      continue;
    }
    const auto& text = std::get<std::string>(prompt[i]);
    if (i == 0) {
      CAIRN_TRY(tokens, completion_prompt_tokens(model.prompt_context(), text));
    } else {
      CAIRN_TRY_VOID(check_length(model.prompt_context(), text, "prompt"));
      CAIRN_TRY_VOID(append_text(*model.tokenizer, text, {.parse_special = true}, tokens));
    }
  }
  return tokens;
}

Result<std::vector<std::vector<TokenId>>> all_prompt_tokens(const LoadedModel& model,
                                                            const CompletionRequest& request) {
  std::vector<std::vector<TokenId>> all;
  if (request.infill) {
    const int32_t answer = request.only_prompt ? 1 : request.generate.max_tokens;
    CAIRN_TRY(auto tokens, infill_prompt_tokens(model.prompt_context(), *request.infill, answer));
    all.push_back(std::move(tokens));
  }
  for (const MixedPrompt& prompt : request.prompts) {
    CAIRN_TRY(auto tokens, prompt_tokens(model, prompt));
    all.push_back(std::move(tokens));
  }
  return all;
}

/// What a request that does not say it takes of the model's LoRA adapters.
std::vector<AdapterScale> current_adapters(const LoadedModel& model) {
  std::vector<AdapterScale> adapters;
  for (const float scale : model.engine->adapter_scales())
    adapters.push_back({.id = static_cast<int32_t>(adapters.size()), .scale = scale});
  return adapters;
}

Result<void> complete(Service& service, RequestContext& context, const net::HttpRequest& http,
                      const std::shared_ptr<net::HttpResponse>& response,
                      Result<CompletionRequest> (*parse)(RequestContext& context, const ordered_json& body)) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(CompletionRequest request, parse(context, body));
  CAIRN_TRY(const SharedModel model, service.find_model(context, request.model));
  set_tenant(http, request.generate);
  ResponseOptions options;
  options.model = model->name;
  options.settings = settings_json(request.generate, model->engine->context_tokens());
  if (!request.generate.adapters) options.settings["lora"] = lora_json(current_adapters(*model));
  options.settings["stream"] = request.stream;
  if (request.only_prompt) options.settings["n_predict"] = options.settings["max_tokens"] = 0;
  options.settings["timings_per_token"] = request.timings_per_token;
  options.several = request.several;
  options.stream = request.stream;
  options.only_prompt = request.only_prompt;
  options.return_tokens = request.return_tokens;
  options.return_progress = request.return_progress;
  options.timings_per_token = request.timings_per_token;
  options.probabilities = request.generate.sampling.logprobs;
  options.filtered_probabilities = request.generate.sampling.filtered_logprobs;
  options.response_fields = std::move(request.response_fields);

  CAIRN_TRY(auto prompts, all_prompt_tokens(*model, request));
  for (const std::vector<TokenId>& tokens : prompts) {
    const std::string text = utf8_replace_invalid(model->tokenizer->decode(tokens, true));
    for (int i = 0; i < request.choices; ++i) {
      options.prompts.push_back(text);
      options.prompt_tokens.push_back(static_cast<int32_t>(tokens.size()));
    }
  }
  auto requests = choice_requests(request.generate, random_id("cmpl-"), std::move(prompts), request.choices);
  CAIRN_TRY_VOID(hold_to_form(model->chat_model(), request.form, &service.grammars(), requests));
  auto serializer = std::make_unique<CompletionSerializer>(std::move(options), *model->tokenizer);
  Generation::start(context,
                    {shared_engine(model), std::move(requests), std::move(serializer), ByteShare(service.bytes()),
                     service.listing(*model)},
                    response);
  return {};
}

Result<SharedModel> asked_model(Service& service, RequestContext& context, const net::HttpRequest& http) {
  return service.find_model(context, http.query_value("model").value_or(""));
}

std::string token_entry(const LoadedModel& model, TokenId id) {
  return id == kNoToken ? std::string() : std::string(model.tokenizer->piece(id, true));
}

Result<ordered_json> props(Service& service, RequestContext& context, const net::HttpRequest& http) {
  CAIRN_TRY(const SharedModel model, asked_model(service, context, http));
  GenerateRequest defaults;
  defaults.sampling = default_sampling();
  const GenerationDefaults preset = service.generation_defaults(*model);
  preset.sampling.apply(defaults.sampling);
  defaults.max_tokens = preset.predict.value_or(-1);
  ordered_json settings = {
      {"id", 0}, {"id_task", -1}, {"n_ctx", model->engine->context_tokens()}, {"is_processing", false}};
  settings["params"] = settings_json(defaults, model->engine->context_tokens());
  settings["params"]["seed"] = preset.seed.value_or(-1);
  settings["params"]["lora"] = lora_json(current_adapters(*model));
  const ChatCapabilities& can = model->chat_template.capabilities();
  const SpecialTokens& special = model->tokenizer->special();
  return ordered_json{{"default_generation_settings", std::move(settings)},
                      {"total_slots", model->sequences_max},
                      {"model_alias", model->name},
                      {"model_path", model->file_name},
                      {"model_ftype", model->quantisation},
                      {"modalities", {{"vision", false}, {"audio", false}}},
                      {"endpoint_slots", true},
                      {"endpoint_props", false},
                      {"endpoint_metrics", true},
                      {"chat_template", model->template_source},
                      {"chat_template_caps",
                       {{"supports_tools", true},
                        {"supports_tool_calls", can.tools},
                        {"supports_system_role", can.system_role},
                        {"supports_typed_content", can.list_content},
                        {"supports_object_arguments", can.object_arguments}}},
                      {"bos_token", token_entry(*model, special.bos)},
                      {"eos_token", token_entry(*model, special.eos)},
                      {"build_info", fmt::format("cairn {}", kVersion)},
                      {"is_sleeping", false}};
}

Result<ordered_json> lora_adapters(Service& service, RequestContext& context, const net::HttpRequest& http) {
  CAIRN_TRY(const SharedModel model, asked_model(service, context, http));
  ordered_json list = ordered_json::array();
  for (const AdapterScale& adapter : current_adapters(*model)) {
    list.push_back(lora_json({&adapter, 1})[0]);
    list.back()["path"] = printable(model->adapters[static_cast<size_t>(adapter.id)]);
  }
  return list;
}

Result<ordered_json> set_lora_adapters(Service& service, RequestContext& context, const net::HttpRequest& http) {
  CAIRN_TRY(const SharedModel model, asked_model(service, context, http));
  auto body = read_json(http.body);
  if (!body) return fail(body.error().code, "the body {}", body.error().message);
  std::vector<AdapterScale> scales;
  if (const std::string_view wrong = read_adapter_scales(*body, scales); !wrong.empty())
    return fail(Code::kInvalidArgument, "the body {}", wrong);
  CAIRN_TRY_VOID(model->engine->set_adapter_scales(scales));
  log_info("{}: LoRA adapters are taken by {:g} from now on", model->name,
           fmt::join(model->engine->adapter_scales(), ", "));
  return ordered_json{{"success", true}};
}

void reply(net::HttpResponse& response, const Result<ordered_json>& result) {
  if (result) {
    send_json(response, *result);
  } else {
    send_error(response, result.error());
  }
}

}  // namespace

void handle_completion(Service& service, RequestContext& context, const net::HttpRequest& request,
                       std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = complete(service, context, request, response, parse_completion); !done)
    send_error(*response, done.error(), ErrorFormat::kLlamaCpp);
}

void handle_infill(Service& service, RequestContext& context, const net::HttpRequest& request,
                   std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = complete(service, context, request, response, parse_infill); !done)
    send_error(*response, done.error(), ErrorFormat::kLlamaCpp);
}

void handle_lora_adapters(Service& service, RequestContext& context, const net::HttpRequest& request,
                          std::shared_ptr<net::HttpResponse> response) {
  reply(*response, lora_adapters(service, context, request));
}

void handle_set_lora_adapters(Service& service, RequestContext& context, const net::HttpRequest& request,
                              std::shared_ptr<net::HttpResponse> response) {
  reply(*response, set_lora_adapters(service, context, request));
}

void handle_props(Service& service, RequestContext& context, const net::HttpRequest& request,
                  std::shared_ptr<net::HttpResponse> response) {
  reply(*response, props(service, context, request));
}

}  // namespace cairn::api::llama_cpp
