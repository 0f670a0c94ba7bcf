// The endpoints of llama.cpp's server that are its own.
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <string>
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

/// An adapter's name and scale for requests that name none.
struct AdapterShown {
  std::string name;
  engine::AdapterScale scale;
};

std::vector<AdapterShown> adapters_of(const ListedModel& model) {
  std::vector<AdapterShown> adapters;
  if (model.loaded != nullptr) {
    for (const engine::AdapterScale& scale : current_adapters(*model.loaded))
      adapters.push_back({model.loaded->adapters[static_cast<size_t>(scale.id)], scale});
  } else {
    for (const model::LoraFile& file : model.status->served->options.lora)
      adapters.push_back({std::filesystem::path(file.path).filename().string(),
                          {.id = static_cast<int32_t>(adapters.size()), .scale = file.scale}});
  }
  return adapters;
}

ordered_json adapters_json(const std::vector<AdapterShown>& adapters) {
  std::vector<engine::AdapterScale> scales;
  for (const AdapterShown& adapter : adapters) scales.push_back(adapter.scale);
  return lora_json(scales);
}

Result<GenerationDefaults> defaults_of(const Exchange& exchange, const ListedModel& model) {
  if (model.loaded != nullptr) return exchange.service.generation_defaults(*model.loaded);
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(model.path));
  return exchange.service.generation_defaults(model.name, file.metadata());
}

/// What the server serves, and how it samples where /completion says nothing; of ?model=NAME, or the default one.
Result<void> handle_props(Exchange& exchange) {
  CAIRN_TRY(const ListedModel model, asked_listed(exchange, Reading::kHeaders));
  CAIRN_TRY(const auto facts, facts_of(exchange.service, model));
  engine::GenerateRequest defaults;
  CAIRN_TRY(const GenerationDefaults preset, defaults_of(exchange, model));
  preset.sampling.apply(defaults.sampling);
  defaults.max_tokens = preset.predict.value_or(-1);
  defaults.stop = preset.stop;
  const auto context = static_cast<int32_t>(model.served_context);
  ordered_json settings = {{"id", 0}, {"id_task", -1}, {"n_ctx", context}, {"is_processing", false}};
  settings["params"] = settings_json(defaults, context);
  settings["params"]["seed"] = preset.seed.value_or(-1);
  settings["params"]["lora"] = adapters_json(adapters_of(model));
  const chat::ChatCapabilities& can = facts->template_can;
  return send_json(exchange, {{"default_generation_settings", std::move(settings)},
                              {"api_sampling", exchange.service.options().openai_sampling ? "openai" : "same"},
                              {"total_slots", sequences_of(model)},
                              {"model_alias", model.name},
                              {"model_path", utf8_replace_invalid(model.path.filename().string())},
                              {"model_ftype", model.quantisation},
                              {"modalities", {{"vision", false}, {"audio", false}}},
                              {"endpoint_slots", true},
                              {"endpoint_props", false},
                              {"endpoint_metrics", true},
                              {"chat_template", facts->template_source},
                              {"chat_template_caps",
                               {{"supports_tools", true},
                                {"supports_tool_calls", can.tools},
                                {"supports_system_role", can.system_role},
                                {"supports_typed_content", can.list_content},
                                {"supports_object_arguments", can.object_arguments}}},
                              {"bos_token", facts->bos.value_or("")},
                              {"eos_token", facts->eos.value_or("")},
                              {"build_info", fmt::format("cairn {}", kVersion)},
                              {"is_sleeping", false}});
}

/// GET /tokenizer_info: what clients that count tokens themselves ask of vLLM. The class is the one of transformers
/// that can hold any tokenizer; a token that the model has not is null.
Result<void> handle_tokenizer_info(Exchange& exchange) {
  CAIRN_TRY(const ListedModel model, asked_listed(exchange, Reading::kHeaders));
  CAIRN_TRY(const auto facts, facts_of(exchange.service, model));
  const auto entry = [](const std::optional<std::string>& text) { return text ? ordered_json(*text) : ordered_json(); };
  return send_json(exchange, {{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"chat_template", facts->template_source},
                              {"bos_token", entry(facts->bos)},
                              {"eos_token", entry(facts->eos)},
                              {"pad_token", entry(facts->padding)},
                              {"model_max_length", model.served_context},
                              {"vocab_size", facts->vocabulary}});
}

/// GET /lora-adapters: those of ?model=NAME, or of the default one, with the scales of requests that name none.
Result<void> handle_lora_adapters(Exchange& exchange) {
  CAIRN_TRY(const ListedModel model, asked_listed(exchange, Reading::kNothing));
  const std::vector<AdapterShown> adapters = adapters_of(model);
  ordered_json list = adapters_json(adapters);
  for (size_t i = 0; i < adapters.size(); ++i) list[i]["path"] = printable(adapters[i].name);
  return send_json(exchange, list);
}

/// Answers on the server's thread for a model that is loaded, of which no file has to be read.
template <Endpoint::Handler kHandler>
Result<bool> try_at_once(Exchange& exchange) {
  const std::string name = exchange.request.query_value("model").value_or("");
  if (!is_loaded(exchange.service, name, exchange.context.scope())) return false;
  CAIRN_TRY_VOID(kHandler(exchange));
  return true;
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

Result<ListedModel> asked_listed(const Exchange& exchange, Reading reading) {
  return find_meant(exchange.service, exchange.request.query_value("model").value_or(""), exchange.context.scope(),
                    reading);
}

int32_t sequences_of(const ListedModel& model) {
  return model.loaded != nullptr ? model.loaded->sequences_max : model.status->served->options.engine.sequences_max;
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
      Endpoint{"GET", "/props", kProtocol, kErrors, kNeedsNamed, kAnyKey, kWorker, handle_props,
               try_at_once<handle_props>}
          .quiet(),
      Endpoint{"GET", "/slots", kProtocol, kErrors, kNeedsNamed, kAnyKey, kWorker, handle_slots,
               try_at_once<handle_slots>}
          .quiet(),
      {"POST", "/slots/{id}", kProtocol, kErrors, kNeedsStart, kAnyKey, kWorker, handle_slot_action},
      {"GET", "/lora-adapters", kProtocol, kErrors, kNeedsStart, kAnyKey, kServer, handle_lora_adapters},
      {"POST", "/lora-adapters", kProtocol, kErrors, kNeedsStart, kManagingKey, kWorker, handle_set_lora_adapters},
      {"POST", "/tokenize", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_tokenize},
      {"POST", "/detokenize", kProtocol, kErrors, kNeedsChat, kAnyKey, kWorker, handle_detokenize},
      {"POST", "/v1/tokenize", kProtocol, ErrorFormat::kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_tokenize},
      {"POST", "/v1/detokenize", kProtocol, ErrorFormat::kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_detokenize},
      {"GET", "/tokenizer_info", kProtocol, kErrors, kNeedsNamed, kAnyKey, kWorker, handle_tokenizer_info,
       try_at_once<handle_tokenizer_info>},
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
