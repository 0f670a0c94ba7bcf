#include "load_flags.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/log.h"
#include "base/text/json.h"
#include "base/text/text_file.h"
#include "calibrate/watched_backend.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "jinja/jinja.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa/isa.h"
#include "loader/model_load.h"
#include "model/model.h"
#include "values.h"

namespace cairn {
namespace {

Result<nlohmann::ordered_json> read_template_variables(std::string_view text) {
  CAIRN_TRY(nlohmann::ordered_json variables, read_json(text));
  if (!variables.is_object())
    return fail(Code::kInvalidArgument, "must be a JSON object, such as '{{\"enable_thinking\": false}}'");
  return variables;
}

struct KvTypeName {
  std::string_view name;
  kernels::KvType type;
};
constexpr KvTypeName kKvTypes[] = {{"f32", kernels::KvType::kF32},
                                   {"f16", kernels::KvType::kF16},
                                   {"bf16", kernels::KvType::kBF16},
                                   {"q8_0", kernels::KvType::kQ8_0}};

void add_gpu_flag(CLI::App& command, int32_t& gpu_layers) {
  constexpr int32_t kLayersMax = 1 << 20;
  command
      .add_option_function<std::string>(
          "--gpu-layers",
          [&gpu_layers](const std::string& layers) {
            gpu_layers = layers == "auto"  ? loader::kGpuLayersAuto
                         : layers == "all" ? loader::kGpuLayersAll
                                           : static_cast<int32_t>(std::stol(layers));
          },
          "Number of layers on the GPU (the last ones), all, or auto: as many as fit (default: auto)")
      ->check(whole_number_or({"auto", "all"}, 0, kLayersMax))
      ->group(std::string(kSpeedHeading));
}

constexpr int32_t kThreadsMax = 1'024;
constexpr const char* kThreadsVariable = "CAIRN_THREADS";

/// What the variable says, where no flag does.
Result<void> read_threads_variable(int32_t& threads) {
  const char* const text = std::getenv(kThreadsVariable);
  if (threads != 0 || text == nullptr || *text == '\0') return {};
  std::string value = text;
  const std::string why = whole_number(1, kThreadsMax)(value);
  if (!why.empty()) return fail(Code::kInvalidArgument, "the variable {} {}", kThreadsVariable, why);
  threads = std::stoi(value);
  return {};
}

// "FILE" or "FILE:SCALE".
model::LoraFile lora_file_named(const std::string& text) {
  model::LoraFile file{.path = text};
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return file;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, file.scale);
  if (error == std::errc() && rest == end) file.path.resize(colon);
  return file;
}

}  // namespace

void add_kv_type_flag(CLI::App& command, kernels::KvType& kv_type) {
  std::vector<std::string> names;
  for (const auto& [name, type] : kKvTypes) names.emplace_back(name);
  command
      .add_option_function<std::string>(
          "--kv-type",
          [&kv_type](const std::string& name) { kv_type = std::ranges::find(kKvTypes, name, &KvTypeName::name)->type; },
          "Type of the cached keys and values; smaller types hold more context in the same memory")
      ->check(one_of(names))
      ->default_str(kv_type_name(kv_type))
      ->group(std::string(kSpeedHeading));
}

std::string kv_type_name(kernels::KvType type) {
  return std::string(std::ranges::find(kKvTypes, type, &KvTypeName::type)->name);
}

void LoadFlags::add_to(CLI::App& command, bool model_required) {
  auto* path = command.add_option(model_required ? "MODEL" : "-m,--model-file,--model,MODEL", model, kModelHelp);
  path->type_name("FILE");
  if (model_required) path->required();
  add_model_flags(command);
  power = std::make_shared<engine::PowerLimit>();
  add_power_flags(command, *power);
  add_log_flag(command);
}

void LoadFlags::add_model_flags(CLI::App& command) {
  const std::string speed(kSpeedHeading), drafts(kDraftHeading);
  command
      .add_option("--ctx", options.model.context_tokens,
                  "Context size: tokens that prompt and answer may have together (default: what the model was trained "
                  "for, if memory allows)")
      ->check(whole_number(1, 1 << 24))
      ->group(speed);
  add_computing_flags(command);
  command
      .add_option(
          "--kv-bytes", options.kv_bytes,
          "Memory for cached keys and values, e.g. 4GiB (default: enough for the contexts that may run at once)")
      ->transform(byte_size(1))
      ->group(speed);
  command
      .add_option("--speculate", options.engine.speculation.tokens_max,
                  "Tokens to draft per step, with the model's own drafting head, with --draft, or from repetitions in "
                  "the text; "
                  "answers stay the same; 0: off")
      ->check(whole_number(0, 16))
      ->capture_default_str()
      ->group(drafts);
  command
      .add_option(
          "--draft", options.draft_model,
          "Small GGUF model with the same vocabulary that drafts tokens, by its file or its name in cairn list; or the "
          "drafting head of DeepSeek V4 or V4.1, or an assistant model of Gemma 4 (default: none)")
      ->type_name("FILE")
      ->group(drafts);
  command
      .add_option("--draft-p-min", options.engine.speculation.probability_min,
                  "Stop drafting at a token that the draft model or the drafting head finds less likely than this; 0: "
                  "never")
      ->check(real_number(0, 1))
      ->capture_default_str()
      ->group(drafts);
}

void LoadFlags::add_template_flags(CLI::App& command) {
  const std::string group(kTemplateHeading);
  command
      .add_option("--chat-template-kwargs", template_variables,
                  "JSON object of variables for the chat template, for requests that do not set them (default: none)")
      ->check(readable_by(read_template_variables))
      ->type_name("JSON")
      ->group(group);
  command
      .add_option("--reasoning", reasoning,
                  "Whether the model thinks before it answers, if a request does not say; auto: as the model's chat "
                  "template does by itself")
      ->check(one_of({"on", "off", "auto"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--chat-template", chat_template_file,
                  "Jinja file to use instead of the model's chat template (default: the model's)")
      ->check(existing_file())
      ->group(group);
  command
      .add_flag("--json-instruction", options.template_defaults.json_instruction,
                "Where a request holds the answer to JSON or to a JSON schema, also ask the model for it in a system "
                "message: small models wander otherwise")
      ->group(group);
}

void LoadFlags::add_runner_flags(CLI::App& command) {
  add_computing_flags(command);
  add_log_flag(command);
}

void LoadFlags::add_computing_flags(CLI::App& command) {
  const std::string speed(kSpeedHeading), special(kSpecialHeading);
  add_kv_type_flag(command, options.model.kv_type);
  add_gpu_flag(command, options.device.gpu_layers);
  command
      .add_option("-t,--threads", options.device.cpu.threads,
                  "CPU threads (default: the variable CAIRN_THREADS, or one per core that this process may use)")
      ->check(whole_number(1, kThreadsMax))
      ->group(speed);
  command
      .add_option("--isa", options.device.cpu.isa,
                  "CPU instruction set: generic, avx2, avxvnni, avx512, avx512bf16 or neon (default: the best one that "
                  "this CPU has)")
      ->check(readable_by(kernels::cpu::choose_isa))
      ->type_name("NAME")
      ->group(speed);
  command
      .add_flag("--pack-cache", options.pack_cache,
                "Keep the repacked weights in MODEL.packed, a file as large as the model, so that later starts are "
                "faster")
      ->group(speed);
  command
      .add_flag("--warmup,!--no-warmup", options.model.warm_weights,
                "Read weights that are used where they lie in the file (F16, BF16, F32) while the model is loaded, or "
                "only when they are first needed")
      ->default_str("true")
      ->group(speed);
  add_rope_flags(command, options.rope);
  command
      .add_flag_callback(
          "--no-rounding", [this] { options.model.simulate_rounding = false; },
          "DeepSeek V4: do not round cached rows as in training")
      ->group(special);
  command
      .add_option_function<std::string>(
          "--lora", [this](const std::string& text) { options.lora.push_back(lora_file_named(text)); },
          "LoRA adapter (GGUF) to apply to the model: a file, or its name in the folder of Cairn's models; repeatable "
          "(default: none)")
      ->type_name("FILE[:SCALE]")
      ->trigger_on_parse()
      ->group(special);
  auto* steer = command
                    .add_option("--steer", options.model.control_vectors.file,
                                "File of directions to remove from each layer's output: float32 [layers, embedding] "
                                "(default: none)")
                    ->check(existing_file())
                    ->group(special);
  command
      .add_option("--steer-attn", options.model.control_vectors.attention,
                  "How much of the --steer directions to remove after attention")
      ->needs(steer)
      ->check(real_number(-1e3, 1e3))
      ->capture_default_str()
      ->group(special);
  command
      .add_option("--steer-ffn", options.model.control_vectors.feed_forward,
                  "How much of the --steer directions to remove after the feed-forward network")
      ->needs(steer)
      ->check(real_number(-1e3, 1e3))
      ->capture_default_str()
      ->group(special);
}

Result<loader::LoadOptions> LoadFlags::load_options() const {
  loader::LoadOptions wanted = options;
  if (power != nullptr) {
    power->set_on_battery(engine::runs_on_battery());
    wanted.engine.power = power;
  }
  if (!chat_template_file.empty()) {
    CAIRN_TRY(wanted.chat_template, read_text_file(chat_template_file, "--chat-template", jinja::kJinjaSourceBytesMax));
    if (wanted.chat_template.empty())
      return fail(Code::kInvalidArgument, "--chat-template: {} is empty", chat_template_file);
  }
  if (!template_variables.empty()) {
    CAIRN_TRY(wanted.template_defaults.variables, read_template_variables(template_variables));
  }
  if (reasoning != "auto") wanted.template_defaults.reasoning = reasoning == "on";
  return wanted;
}

Result<void> LoadFlags::find_companions(const std::string& folder) {
  const auto replace = [](std::string& name, std::string_view flag, Result<std::string> file) -> Result<void> {
    if (!file) return fail(file.error().code, "{}: {}", flag, file.error().message);
    name = *std::move(file);
    return {};
  };
  if (std::string& draft = options.draft_model; !draft.empty())
    CAIRN_TRY_VOID(replace(draft, "--draft", find_draft_file(draft, folder)));
  for (model::LoraFile& adapter : options.lora)
    CAIRN_TRY_VOID(replace(adapter.path, "--lora", find_adapter_file(adapter.path, folder)));
  return {};
}

Result<LoadFlags> LoadFlags::found(const ModelSearch& search) const {
  CAIRN_TRY(const loader::CatalogModel of_name, find_model(model, search));
  LoadFlags flags = *this;
  CAIRN_TRY_VOID(flags.find_companions(search.folder));
  CAIRN_TRY_VOID(read_threads_variable(flags.options.device.cpu.threads));
  flags.model = of_name.path.string();
  if (flags.options.name.empty()) flags.options.name = of_name.name;
  if (of_name.made == nullptr) return flags;
  const std::string folder = search.folder.empty() ? loader::default_models_folder().string() : search.folder;
  CAIRN_TRY_VOID(apply_made(*of_name.made, folder, flags.options, flags.made));
  if (options.model.context_tokens > 0) flags.options.model.context_tokens = options.model.context_tokens;
  return flags;
}

Result<std::unique_ptr<loader::LoadedModel>> LoadFlags::load() const {
  CAIRN_TRY(const loader::LoadOptions wanted, load_options());
  return loader::load_model_file(model, wanted);
}

Result<gguf::Reader> LoadFlags::open_file() const {
  CAIRN_TRY(gguf::Reader file, gguf::Reader::open(model));
  CAIRN_TRY_VOID(model::set_rope_options(file, options.rope, options.model.context_tokens));
  return file;
}

Result<LoadedRunner> LoadFlags::load_runner(const gguf::Reader& file, model::ModelOptions sizes, int32_t sequences,
                                            calibrate::ProductWatcher* watcher) const {
  CAIRN_TRY(const std::string_view architecture, file.metadata().string("general.architecture"));
  CAIRN_TRY(const std::vector<model::LoraAdapter> adapters, model::open_lora_adapters(options.lora, architecture));
  sizes.adapters = adapters;
  const loader::MemoryRequest request{
      .context_tokens = sizes.context_tokens, .sequences = sequences, .sequences_running = sequences};
  LoadedRunner loaded;
  const auto fits = [&](const loader::Device& device) -> Result<bool> {
    CAIRN_TRY(loaded.plan, loader::plan_device_memory(file, device, sizes, request));
    return true;
  };
  CAIRN_TRY(loaded.device, loader::choose_device(file, options.device, fits));
  sizes.weights_in_place = loaded.plan.weights_in_place();
  if (watcher != nullptr) {
    for (loader::DevicePart& part : loaded.device.parts) {
      part.backend = std::make_shared<calibrate::WatchedBackend>(part.backend, *watcher);
    }
  }
  if (options.pack_cache && loaded.device.parts.size() == 1) {
    loaded.pack_cache = std::make_unique<model::PackCache>(model, file, loaded.device.backend().packed_format_id());
    sizes.pack_cache = loaded.pack_cache.get();
  }
  CAIRN_TRY(loaded.runner, model::load_model(file, loaded.device.stages(), sizes));
  return loaded;
}

void add_power_flags(CLI::App& command, engine::PowerLimit& limit) {
  const std::string group(kOperatingHeading);
  const CLI::Validator percent = whole_number(engine::kPowerPercentMin, engine::kPowerPercentMax);
  command
      .add_option_function<int32_t>(
          "--power-percent", [&limit](int32_t value) { limit.set_percent(value); },
          "Percent of the time in which models compute, so that the machine stays cool; they rest after each step")
      ->check(percent)
      ->default_str(std::to_string(engine::kPowerPercentMax))
      ->group(group);
  command
      .add_option_function<int32_t>(
          "--power-percent-on-battery", [&limit](int32_t value) { limit.set_on_battery_percent(value); },
          "The same while a battery is all that powers the machine, if it is less")
      ->check(percent)
      ->default_str(std::to_string(engine::kPowerPercentMax))
      ->group(group);
}

void warn_without_template(const loader::LoadedModel& model) {
  if (!model.chat_template.is_fallback() || model.embedder != nullptr) return;
  log_warning(
      "{} has no chat template: conversations are written in ChatML, which it may not know; give it one with "
      "--chat-template FILE",
      model.name);
}

void add_log_flag(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--log-level",
          [](const std::string& level) {
            set_log_level(level == "debug"     ? LogLevel::kDebug
                          : level == "info"    ? LogLevel::kInfo
                          : level == "warning" ? LogLevel::kWarning
                                               : LogLevel::kError);
          },
          "Least severe messages to log on standard error (default: info)")
      ->check(one_of({"debug", "info", "warning", "error"}))
      ->group(std::string(kOperatingHeading));
}

}  // namespace cairn
