// The endpoints of llama.cpp's server that are its own.
#include <fmt/ranges.h>

#include <vector>

#include "api/chat/run.h"
#include "api/endpoint.h"
#include "api/http/tenant.h"
#include "api/llama_cpp/handlers.h"
#include "api/llama_cpp/request.h"
#include "api/llama_cpp/serializer.h"
#include "api/params/choices.h"
#include "api/params/llama_options.h"
#include "api/params/prompt_cut.h"
#include "api/tokenize_endpoints.h"
#include "base/log.h"
#include "base/system/random_id.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/utf8.h"
#include "base/version.h"
#include "chat/completion_prompt.h"

namespace cairn::api::llama_cpp {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kPromptField = "prompt";

// Only a prompt that begins with text gets the beginning token: who sends ids has put it there.
Result<std::vector<TokenId>> prompt_tokens(const loader::LoadedModel& model, const chat::PromptContext& context,
                                           const MixedPrompt& prompt, const std::string& path) {
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt[i])) {
      tokens.insert(tokens.end(), ids->begin(), ids->end());
      continue;
    }
    const auto& text = std::get<std::string>(prompt[i]);
    if (i == 0) {
      CAIRN_TRY(tokens, chat::completion_prompt_tokens(context, text, path));
    } else {
      CAIRN_TRY_VOID(chat::check_length(context, text, path));
      CAIRN_TRY_VOID(chat::append_text(*model.tokenizer, text, {.parse_special = true}, tokens));
    }
  }
  return tokens;
}

Result<std::vector<std::vector<TokenId>>> all_prompt_tokens(RequestContext& context, const loader::LoadedModel& model,
                                                            const CompletionRequest& request) {
  std::vector<std::vector<TokenId>> all;
  if (request.infill) {
    CAIRN_TRY(auto tokens,
              chat::infill_prompt_tokens(model.prompt_context(), *request.infill, request.generate.max_tokens));
    all.push_back(std::move(tokens));
  }
  const chat::PromptContext prompts = prompt_context_of(model, request.generate);
  for (const MixedPrompt& prompt : request.prompts) {
    const std::string path = prompt_path(kPromptField, all.size(), request.prompts.size());
    CAIRN_TRY(auto tokens, prompt_tokens(model, prompts, prompt, path));
    cut_prompt(context, prompts, request.generate, std::holds_alternative<std::string>(prompt.front()), tokens);
    all.push_back(std::move(tokens));
  }
  return all;
}

/// What a request that does not say it takes of the model's LoRA adapters.
std::vector<engine::AdapterScale> current_adapters(const loader::LoadedModel& model) {
  std::vector<engine::AdapterScale> adapters;
  for (const float scale : model.engine->adapter_scales())
    adapters.push_back({.id = static_cast<int32_t>(adapters.size()), .scale = scale});
  return adapters;
}

Result<void> complete(Exchange& exchange, CompletionRequest request) {
  CAIRN_TRY(const loader::SharedModel model, exchange.service.find_model(exchange.context, request.model));
  set_tenant(exchange.request, request.generate);
  ResponseOptions options;
  options.model = model->name;
  options.settings = settings_json(request.generate, model->engine->context_tokens());
  if (!request.generate.adapters) options.settings["lora"] = lora_json(current_adapters(*model));
  options.settings["stream"] = request.stream;
  options.settings["timings_per_token"] = request.timings_per_token;
  options.several = request.several;
  options.stream = request.stream;
  options.return_tokens = request.return_tokens;
  options.return_progress = request.return_progress;
  options.timings_per_token = request.timings_per_token;
  options.probabilities = request.generate.sampling.logprobs;
  options.filtered_probabilities = request.generate.sampling.filtered_logprobs;
  options.response_fields = std::move(request.response_fields);

  CAIRN_TRY(auto prompts, all_prompt_tokens(exchange.context, *model, request));
  for (const std::vector<TokenId>& tokens : prompts) {
    const std::string text = utf8_replace_invalid(model->tokenizer->decode(tokens, true));
    for (int i = 0; i < request.choices; ++i) {
      options.prompts.push_back(text);
      options.prompt_tokens.push_back(static_cast<int32_t>(tokens.size()));
    }
  }
  auto requests = choice_requests(request.generate, random_id("cmpl-"), std::move(prompts), request.choices);
  return run_completion(exchange, model, std::move(requests), request.form,
                        std::make_unique<CompletionSerializer>(std::move(options), *model->tokenizer),
                        request.infill ? request.infill->prefix_field : std::string(kPromptField));
}

Result<void> handle_completion(Exchange& exchange) {
  CAIRN_TRY(CompletionRequest request, read_body(exchange, parse_completion));
  return complete(exchange, std::move(request));
}

Result<void> handle_infill(Exchange& exchange) {
  CAIRN_TRY(CompletionRequest request, read_body(exchange, parse_infill));
  return complete(exchange, std::move(request));
}

std::string token_entry(const loader::LoadedModel& model, TokenId id) {
  return id == kNoToken ? std::string() : std::string(model.tokenizer->piece(id, true));
}

/// What the server serves, and how it samples where /completion says nothing; of ?model=NAME, or the first one.
Result<void> handle_props(Exchange& exchange) {
  CAIRN_TRY(const loader::SharedModel model, asked_model(exchange));
  engine::GenerateRequest defaults;
  defaults.sampling = default_sampling();
  const GenerationDefaults preset = exchange.service.generation_defaults(*model);
  preset.sampling.apply(defaults.sampling);
  defaults.max_tokens = preset.predict.value_or(-1);
  ordered_json settings = {
      {"id", 0}, {"id_task", -1}, {"n_ctx", model->engine->context_tokens()}, {"is_processing", false}};
  settings["params"] = settings_json(defaults, model->engine->context_tokens());
  settings["params"]["seed"] = preset.seed.value_or(-1);
  settings["params"]["lora"] = lora_json(current_adapters(*model));
  const chat::ChatCapabilities& can = model->chat_template.capabilities();
  const tokenizer::SpecialTokens& special = model->tokenizer->special();
  return send_json(exchange, {{"default_generation_settings", std::move(settings)},
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
                              {"is_sleeping", false}});
}

/// GET /tokenizer_info: what clients that count tokens themselves ask of vLLM. The class is the one of transformers
/// that can hold any tokenizer; a token that the model has not is null.
Result<void> handle_tokenizer_info(Exchange& exchange) {
  CAIRN_TRY(const loader::SharedModel model, asked_model(exchange));
  const tokenizer::SpecialTokens& special = model->tokenizer->special();
  const auto entry = [&](TokenId id) {
    return id == kNoToken ? ordered_json() : ordered_json(token_entry(*model, id));
  };
  return send_json(exchange, {{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"chat_template", model->template_source},
                              {"bos_token", entry(special.bos)},
                              {"eos_token", entry(special.eos)},
                              {"pad_token", entry(special.padding)},
                              {"model_max_length", model->engine->context_tokens()},
                              {"vocab_size", model->tokenizer->size()}});
}

/// GET /lora-adapters: those of ?model=NAME, or of the first one, with the scales of requests that name none.
Result<void> handle_lora_adapters(Exchange& exchange) {
  CAIRN_TRY(const loader::SharedModel model, asked_model(exchange));
  ordered_json list = ordered_json::array();
  for (const engine::AdapterScale& adapter : current_adapters(*model)) {
    list.push_back(lora_json({&adapter, 1})[0]);
    list.back()["path"] = printable(model->adapters[static_cast<size_t>(adapter.id)]);
  }
  return send_json(exchange, list);
}

/// POST /lora-adapters: sets those scales for requests that come from then on; 0 for what is left out.
Result<void> handle_set_lora_adapters(Exchange& exchange) {
  CAIRN_TRY(const loader::SharedModel model, asked_model(exchange));
  auto body = read_json(exchange.request.body);
  if (!body) return fail(body.error().code, "the body {}", body.error().message);
  std::vector<engine::AdapterScale> scales;
  if (const std::string_view wrong = read_adapter_scales(*body, scales); !wrong.empty())
    return fail(Code::kInvalidArgument, "the body {}", wrong);
  CAIRN_TRY_VOID(model->engine->set_adapter_scales(scales));
  log_info("{}: LoRA adapters are taken by {:g} from now on", model->name,
           fmt::join(model->engine->adapter_scales(), ", "));
  return send_json(exchange, {{"success", true}});
}

}  // namespace

Result<loader::SharedModel> asked_model(const Exchange& exchange) {
  return exchange.service.find_model(exchange.context, exchange.request.query_value("model").value_or(""));
}

std::span<const Endpoint> endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kLlamaCpp;
  constexpr auto kErrors = ErrorFormat::kLlamaCpp;
  static constexpr Endpoint kRows[] = {
      {"POST", "/completion", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_completion},
      {"POST", "/completions", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_completion},
      {"POST", "/infill", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_infill},
      {"GET", "/props", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_props},
      {"GET", "/slots", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_slots},
      {"POST", "/slots/{id}", kProtocol, kErrors, kNeedsStart, kAnyKey, kWorker, handle_slot_action},
      {"GET", "/lora-adapters", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_lora_adapters},
      {"POST", "/lora-adapters", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_set_lora_adapters},
      {"POST", "/tokenize", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_tokenize},
      {"POST", "/detokenize", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_detokenize},
      {"POST", "/v1/tokenize", kProtocol, ErrorFormat::kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_tokenize},
      {"POST", "/v1/detokenize", kProtocol, ErrorFormat::kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_detokenize},
      {"GET", "/tokenizer_info", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_tokenizer_info},
      {"POST", "/apply-template", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_apply_template},
      // Telemetry counts these with OpenAI's endpoints, beside which clients ask for them.
      {"GET", "/v1/stream", Protocol::kOpenAi, ErrorFormat::kOpenAi, kNeedsStart, kAnyKey, kServer, handle_kept_stream},
      {"DELETE", "/v1/stream", Protocol::kOpenAi, ErrorFormat::kOpenAi, kNeedsStart, kAnyKey, kWorker,
       handle_remove_stream},
      {"POST", "/v1/streams/lookup", Protocol::kOpenAi, ErrorFormat::kOpenAi, kNeedsStart, kAnyKey, kWorker,
       handle_find_streams},
  };
  return kRows;
}

}  // namespace cairn::api::llama_cpp
