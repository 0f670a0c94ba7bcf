#include "loader/model_load.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "base/text/utf8.h"
#include "chat/builtin_templates.h"
#include "engine/encoder_engine.h"
#include "gguf/fingerprint.h"
#include "kernels/backend.h"
#include "loader/catalog/description.h"
#include "loader/draft.h"
#include "loader/memory_plan.h"
#include "loader/model_files.h"
#include "model/embedder.h"
#include "model/model.h"
#include "model/runner.h"
#include "model/weights/pack_cache.h"

namespace cairn::loader {
namespace {

// Drafts per step when a draft model is given and no number of them.
constexpr int32_t kDraftTokens = 4;

int64_t modified_unix_s(const std::filesystem::path& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<int64_t>(status.st_mtime) : 0;
}

Result<chat::ChatTemplate> make_template(std::string_view source, const tokenizer::Tokenizer& tokenizer) {
  const auto text_of = [&](TokenId id) { return id == kNoToken ? std::string() : std::string(tokenizer.entry(id)); };
  return chat::ChatTemplate::create(source, text_of(tokenizer.special().bos), text_of(tokenizer.special().eos));
}

/// Whether this is the text of one control token.
bool has_token(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text, {.parse_special = true});
  return ids.has_value() && ids->size() == 1 && tokenizer.is_special(ids->front());
}

struct TemplateChoice {
  chat::ChatTemplate made;
  std::string_view source;
};

// The options' template, or else the file's, or else one that is known, or probable, for the architecture. All outlive
// the choice.
// `tell`: the log is told what is wrong with it.
Result<TemplateChoice> choose_template(const std::filesystem::path& path, const gguf::Reader& file,
                                       std::string_view architecture, const tokenizer::Tokenizer& tokenizer,
                                       const LoadOptions& options, bool tell) {
  CAIRN_TRY(std::string_view source, file.metadata().string_or("tokenizer.chat_template", ""));
  if (source.empty()) source = chat::builtin_template(architecture);
  const bool own = options.chat_template.empty();
  if (!own) source = options.chat_template;
  const std::string name = utf8_replace_invalid(path.filename().string());
  if (source.empty()) {
    const chat::FallbackTemplate probable =
        chat::fallback_template(architecture, [&](std::string_view text) { return has_token(tokenizer, text); });
    source = probable.source;
    if (tell && !source.empty()) {
      log_warning(
          "{} has no chat template: conversations are written as for {}, whose control tokens its vocabulary has, but "
          "which it may not have been trained for; give it another template with --chat-template FILE",
          name, probable.family);
    }
  }
  source = chat::trimmed_template(source);
  auto made = make_template(source, tokenizer);
  if (tell && made && !made->shows_messages()) {
    log_warning(
        "the chat template {} {} does not show what a user says: the model sees nothing of a conversation; give "
        "another with --chat-template FILE",
        own ? "of" : "that --chat-template gives for", name);
  }
  if (made) return TemplateChoice{std::move(*made), source};
  const Error& error = made.error();
  if (!own) return fail(error.code, "the chat template that --chat-template gives: {}", error.text());
  if (tell) {
    log_warning(
        "the chat template of {} cannot be read: {}. Conversations are written in ChatML, which the model may not "
        "know: give it another template with --chat-template FILE",
        name, error.text());
  }
  CAIRN_TRY(chat::ChatTemplate fallback, make_template("", tokenizer));
  return TemplateChoice{std::move(fallback), ""};
}

/// What a plan may count on.
struct HostBytes {
  int64_t most = 0;
  int64_t freed = 0;
};

std::string name_of(const std::filesystem::path& path, const LoadOptions& options) {
  if (!options.name.empty()) return options.name;
  return options.aliases.empty() ? model_name_of(path) : options.aliases.front();
}

model::ModelOptions model_options_of(const LoadOptions& options, const gguf::Reader* mtp_file,
                                     std::span<const model::LoraAdapter> adapters) {
  model::ModelOptions model_options = options.model;
  model_options.adapters = adapters;
  // A model that drafts leaves the block that could nothing to do.
  const bool drafts = !options.draft_model.empty() && mtp_file == nullptr;
  model_options.load_mtp = mtp_file != nullptr || (options.engine.speculation.tokens_max > 0 && !drafts);
  model_options.mtp_file = mtp_file;
  return model_options;
}

// Prompt rows of a step on GPUs, and rows of one in all: 1,024 are whole tiles of its products, and enough of them for
// all multiprocessors. A processor's caches want fewer (EngineOptions, ModelOptions).
constexpr int32_t kGpuPromptRows = 1'024;
constexpr int32_t kGpuStepRows = 1'280;
// Rows of logits of a step on GPUs, and so sequences that decode together.
constexpr int32_t kGpuLogitRows = 128;

bool all_on_gpus(const Device& device) {
  return device.on_gpu() && std::ranges::all_of(device.parts, &DevicePart::gpu);
}
int32_t step_rows(const Device& device) {
  return all_on_gpus(device) ? kGpuStepRows : model::ModelOptions{}.batch_tokens_max;
}

int32_t logit_rows(const Device& device) {
  return all_on_gpus(device) ? kGpuLogitRows : model::ModelOptions{}.logits_max;
}

// What is known before weights are read.
struct Preparation {
  std::unique_ptr<DraftModel> draft;  // null: none
  model::ModelOptions model{};        // for the device
  MemoryPlan plan;
  int64_t host_bytes = 0;  // of the machine's memory
};

int64_t host_bytes_of(const Preparation& prepared, const Device& device, const LoadOptions& options) {
  int64_t bytes = options.engine.kv_host_bytes;
  if (prepared.draft != nullptr && !device.on_gpu()) bytes += prepared.draft->plan.bytes();
  for (size_t i = 0; i < device.parts.size(); ++i)
    if (!device.parts[i].gpu) bytes += prepared.plan.stages[i].bytes();
  return bytes;
}

// Without a tokenizer no draft model is opened.
Result<Preparation> prepare(const gguf::Reader& file, const tokenizer::Tokenizer* tokenizer, const Device& device,
                            const LoadOptions& options, const model::ModelOptions& model_options,
                            const HostBytes& host) {
  Preparation made;
  made.model = model_options;
  made.model.batch_tokens_max = step_rows(device);
  made.model.logits_max = logit_rows(device);
  if (!device.on_gpu())
    made.model.available_bytes = bounded_host_bytes(device.backend().available_bytes() + host.freed, host.most);
  int64_t draft_bytes = 0;
  if (tokenizer != nullptr && !options.draft_model.empty() && model_options.mtp_file == nullptr) {
    CAIRN_TRY(made.draft, open_draft(options.draft_model, *tokenizer, device.backend(),
                                     {.context_tokens = options.model.context_tokens, .sequences = options.sequences}));
    draft_bytes = made.draft->plan.bytes();
  }
  const MemoryRequest request{.context_tokens = options.model.context_tokens,
                              .kv_bytes = options.kv_bytes,
                              .sequences = options.sequences,
                              .sequences_running = options.engine.sequences_max,
                              .step_rows = made.model.batch_tokens_max,
                              .kv_host_bytes = options.engine.kv_host_bytes,
                              .kv_disk = !options.kv_disk.folder.empty() && options.engine.prefix_cache,
                              .host_bytes_max = host.most,
                              .host_bytes_freed = host.freed};
  CAIRN_TRY(made.plan, plan_device_memory(file, device, made.model, request, draft_bytes));
  made.host_bytes = host_bytes_of(made, device, options);
  return made;
}

// The last stage first: it is all of a model on one device.
void log_plan(const MemoryPlan& plan, const Device& device) {
  log_info("memory: {}", plan.stages.back().text());
  for (size_t i = 0; i + 1 < plan.stages.size(); ++i) {
    log_info("memory of {}: {}", device.parts[i].backend->description(), plan.stages[i].text());
  }
}

Result<void> check_vocabulary(const LoadedModel& model, int64_t vocabulary) {
  if (model.tokenizer->size() <= vocabulary) return {};
  return fail(Code::kCorruptFile, "the tokenizer has {} tokens, but the model only {}", model.tokenizer->size(),
              vocabulary);
}

void set_embedding(LoadedModel& model, const model::EmbeddingAbility& ability, model::Pooling usual) {
  model.embedding = ability;
  if (ability.pooling == model::Pooling::kNone) model.embedding.pooling = usual;
}

// What is returned is the engine's to ask: the model outlives it.
std::function<Result<void>()> watch_files(LoadedModel& model) {
  model.files->watch(model.file);
  if (model.mtp_file != nullptr) model.files->watch(*model.mtp_file);
  if (model.draft != nullptr) model.files->watch(model.draft->file);
  if (model.pack_cache != nullptr && model.pack_cache->file() != nullptr) model.files->watch(*model.pack_cache->file());
  return [&files = *model.files] { return files.check(); };
}

// Sets the names of the model's adapters, and returns their scales.
std::vector<float> name_adapters(const LoadOptions& options, LoadedModel& model) {
  std::vector<float> scales;
  for (const model::LoraFile& adapter : options.lora) {
    scales.push_back(adapter.scale);
    model.adapters.push_back(std::filesystem::path(adapter.path).filename().string());
  }
  return scales;
}

// Once everything else is loaded. Names the model's adapters, too.
engine::EngineOptions engine_options_of(const LoadOptions& options, LoadedModel& model) {
  engine::EngineOptions engine_options = options.engine;
  engine_options.model = model.name;
  engine_options.adapter_scales = name_adapters(options, model);
  engine_options.check_weights = watch_files(model);
  return engine_options;
}

Result<void> start_encoder(LoadedModel& model, const model::ModelOptions& model_options, const LoadOptions& options) {
  if (model.draft != nullptr) {
    return fail_at("draft", Code::kInvalidArgument, "{} writes no text, for which a draft model could draft",
                   model.name);
  }
  CAIRN_TRY(model.embedder, model::load_embedder(model.file, model.device.backend(), model_options));
  CAIRN_TRY_VOID(check_vocabulary(model, model.embedder->vocabulary()));
  set_embedding(model, model.embedder->ability(), model::Pooling::kMean);
  CAIRN_TRY(model.engine, engine::make_encoder_engine(*model.embedder, engine_options_of(options, model)));
  log_info("an encoder: vectors of {} numbers for texts of up to {} tokens", model.embedding.dimensions,
           model.engine->context_tokens());
  return {};
}

std::shared_ptr<cache::disk::DiskTier> kv_disk_of(const LoadOptions& options, const model::ModelOptions& model_options,
                                                  const LoadedModel& model) {
  const nlohmann::json about{{"model", model.name},
                             {"file", model.file_name},
                             {"architecture", model.architecture},
                             {"quantisation", model.quantisation}};
  return open_kv_disk(options.kv_disk, model.runner->kv_layout(),
                      {.file = model.file,
                       .model = model_options,
                       .device = model.device,
                       .context_tokens = model.runner->context_tokens()},
                      about.dump());
}

// What the model drafts with besides itself; null: nothing.
Result<std::unique_ptr<engine::Drafter>> load_drafter(LoadedModel& model, const LoadOptions& options) {
  if (model.runner->has_mtp())
    log_info("drafts with {}", options.draft_model.empty() ? "its own drafting head" : options.draft_model);
  if (model.draft == nullptr) return nullptr;
  log_info("draft model {}: {}", options.draft_model, model.draft->plan.stages.front().text());
  const auto vocabulary = static_cast<int32_t>(model.runner->vocabulary());
  return load_draft(*model.draft, model.device.backend(), vocabulary);
}

Result<void> start_decoder(LoadedModel& model, const model::ModelOptions& model_options, const MemoryPlan& plan,
                           const LoadOptions& options) {
  CAIRN_TRY(model.runner, model::load_model(model.file, model.device.stages(), model_options));
  set_embedding(model, model.runner->embedding(), model::Pooling::kLast);
  CAIRN_TRY_VOID(check_vocabulary(model, model.runner->vocabulary()));
  CAIRN_TRY(std::unique_ptr<engine::Drafter> drafter, load_drafter(model, options));
  engine::EngineOptions engine_options = engine_options_of(options, model);
  engine_options.kv_pages = plan.kv_pages;
  if (const int32_t most = model.runner->logits_max(); engine_options.sequences_max > most)
    log_warning("{}: at most {} requests run at once on {}, not {}", model.name, most, model.device.text(),
                engine_options.sequences_max);
  if (all_on_gpus(model.device)) engine_options.prefill_chunk_max = kGpuPromptRows;
  if (engine_options.prefix_cache) engine_options.kv_disk = kv_disk_of(options, model_options, model);
  if (!options.draft_model.empty() && engine_options.speculation.tokens_max == 0)
    engine_options.speculation.tokens_max = kDraftTokens;
  CAIRN_TRY(model.engine, engine::Engine::create(*model.runner, model.device.memories(), *model.tokenizer,
                                                 engine_options, std::move(drafter)));
  log_info("context: {} tokens per conversation", model.engine->context_tokens());
  return {};
}

}  // namespace

struct ModelLoad::State {
  std::filesystem::path path;
  LoadOptions options;
  gguf::Reader file;
  std::string architecture;
  std::unique_ptr<gguf::Reader> mtp_file;
  std::vector<model::LoraAdapter> adapters;
  model::ModelOptions model_options{};
  std::unique_ptr<tokenizer::Tokenizer> tokenizer{};  // null: it is for plans alone
  Device device{};
  Preparation prepared{};
};

ModelLoad::ModelLoad(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelLoad::ModelLoad(ModelLoad&&) noexcept = default;
ModelLoad::~ModelLoad() = default;

Result<ModelLoad> ModelLoad::open_header(const std::filesystem::path& path, const LoadOptions& options) {
  CAIRN_TRY(gguf::Reader file, gguf::Reader::open(path));
  CAIRN_TRY(const std::string_view architecture, file.metadata().string("general.architecture"));
  CAIRN_TRY_VOID(model::set_rope_options(file, options.rope, options.model.context_tokens));
  std::unique_ptr<gguf::Reader> mtp_file;
  if (!options.draft_model.empty()) {
    CAIRN_TRY(mtp_file, open_mtp_file(options.draft_model));
  }
  CAIRN_TRY(std::vector<model::LoraAdapter> adapters, model::open_lora_adapters(options.lora, architecture));
  auto state = std::unique_ptr<State>(new State{.path = path,
                                                .options = options,
                                                .file = std::move(file),
                                                .architecture = std::string(architecture),
                                                .mtp_file = std::move(mtp_file),
                                                .adapters = std::move(adapters)});
  state->model_options = model_options_of(options, state->mtp_file.get(), state->adapters);
  return ModelLoad(std::move(state));
}

Result<ModelLoad> ModelLoad::open(const std::filesystem::path& path, const LoadOptions& options) {
  CAIRN_TRY(ModelLoad opened, open_header(path, options));
  CAIRN_TRY(opened.state_->tokenizer, tokenizer::Tokenizer::load(opened.state_->file.metadata()));
  for (const model::LoraFile& adapter : options.lora)
    log_info("LoRA adapter {}, scale {:g}", adapter.path, adapter.scale);
  return opened;
}

Result<const MemoryPlan*> ModelLoad::plan(int64_t host_bytes_max, int64_t freed) {
  State& s = *state_;
  s.prepared = {};
  const auto fits = [&](const Device& device) -> Result<bool> {
    CAIRN_TRY(s.prepared,
              prepare(s.file, s.tokenizer.get(), device, s.options, s.model_options, {host_bytes_max, freed}));
    return s.prepared.plan.whole_context;
  };
  DeviceRequest request = s.options.device;
  if (s.tokenizer == nullptr) request.gpu_layers = 0;
  CAIRN_TRY(s.device, choose_device(s.file, request, fits));
  return &s.prepared.plan;
}

Result<ModelFacts> read_model_facts(const std::filesystem::path& path, const LoadOptions& options) {
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(path));
  CAIRN_TRY(const std::string_view architecture, file.metadata().string("general.architecture"));
  CAIRN_TRY(const auto tokenizer, tokenizer::Tokenizer::load(file.metadata()));
  CAIRN_TRY(const TemplateChoice chosen, choose_template(path, file, architecture, *tokenizer, options, false));
  ModelFacts facts = model_facts(*tokenizer, chosen.made, chosen.source);
  if (!options.draft_model.empty()) {
    CAIRN_TRY(const auto mtp_file, open_mtp_file(options.draft_model));
    facts.drafts = mtp_file == nullptr;
  }
  return facts;
}

int64_t ModelLoad::context_tokens() const { return state_->prepared.plan.context_tokens; }

int64_t ModelLoad::host_bytes() const { return state_->prepared.host_bytes; }

Result<std::unique_ptr<LoadedModel>> load_model_file(const std::filesystem::path& path, const LoadOptions& options) {
  CAIRN_TRY(ModelLoad opened, ModelLoad::open(path, options));
  CAIRN_TRY_VOID(opened.plan(std::numeric_limits<int64_t>::max()));
  return std::move(opened).load();
}

Result<std::unique_ptr<LoadedModel>> ModelLoad::load() && {
  State& s = *state_;
  const std::filesystem::path& path = s.path;
  const LoadOptions& options = s.options;
  gguf::Reader& file = s.file;
  model::ModelOptions& model_options = s.prepared.model;
  const MemoryPlan& plan = s.prepared.plan;
  CAIRN_TRY(TemplateChoice chat_template, choose_template(path, file, s.architecture, *s.tokenizer, options, true));

  auto model = std::unique_ptr<LoadedModel>(new LoadedModel{
      .memory = ByteShare(),
      .name = name_of(path, options),
      .aliases = options.aliases,
      .file_name = utf8_replace_invalid(path.filename().string()),
      .architecture = s.architecture,
      .quantisation = quantisation_of(file),
      .parameters = 0,
      .file_bytes = file.file_bytes(),
      .fingerprint = gguf::fingerprint(file),
      .created_unix_s = modified_unix_s(path),
      .sequences_max = options.engine.sequences_max,
      .plan = plan,
      .file = std::move(file),
      .tokenizer = std::move(s.tokenizer),
      .chat_template = std::move(chat_template.made),
      .template_source = std::string(chat_template.source),
      .template_defaults = options.template_defaults,
      .output_format = chat::detect_output_format(chat_template.source),
      .constraints = nullptr,
      .device = std::move(s.device),
      .pack_cache = nullptr,
      .mtp_file = std::move(s.mtp_file),
      .runner = nullptr,
      .embedder = nullptr,
      .embedding = {},
      .draft = std::move(s.prepared.draft),
      .files = std::make_unique<ModelFiles>(),
      .engine = nullptr,
  });
  model->constraints = std::make_unique<chat::ConstraintTables>(*model->tokenizer, model->output_format.tools);
  for (const auto& tensor : model->file.tensors()) model->parameters += tensor.elements();
  log_info("{}: {} {}, {:.2f} G parameters, on {}", model->name, model->architecture, model->quantisation,
           static_cast<double>(model->parameters) * 1e-9, model->device.text());
  log_plan(plan, model->device);
  if (options.engine.kv_host_bytes > 0)
    log_info("memory: {} for what the KV cache gives up", bytes_text(options.engine.kv_host_bytes));

  model_options.context_tokens = plan.context_tokens;
  model_options.weights_in_place = plan.weights_in_place();
  if (options.pack_cache && model->device.parts.size() == 1) {
    model->pack_cache =
        std::make_unique<model::PackCache>(path, model->file, model->device.backend().packed_format_id());
    model_options.pack_cache = model->pack_cache.get();
  }
  if (model::is_encoder(model->file)) {
    CAIRN_TRY_VOID(start_encoder(*model, model_options, options));
    return model;
  }
  CAIRN_TRY_VOID(start_decoder(*model, model_options, plan, options));
  return model;
}

}  // namespace cairn::loader
