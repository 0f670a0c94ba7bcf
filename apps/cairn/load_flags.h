/// Flags of all subcommands that run a model.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/params/generation_defaults.h"
#include "base/error.h"
#include "engine/power_limit.h"
#include "loader/device.h"
#include "loader/load_options.h"
#include "loader/loaded_model.h"
#include "loader/memory_plan.h"
#include "model/rope_options.h"
#include "model/runner.h"
#include "model/weights/pack_cache.h"
#include "model_argument.h"

namespace cairn::calibrate {
class ProductWatcher;
}  // namespace cairn::calibrate

namespace cairn {

/// Adds --kv-type, which takes "f32", "f16", "bf16" or "q8_0".
void add_kv_type_flag(CLI::App& command, kernels::KvType& kv_type);
/// The name by which --kv-type takes the type.
std::string kv_type_name(kernels::KvType type);

/// Adds --rope-scaling and what belongs to it (rope_flags.cpp).
void add_rope_flags(CLI::App& command, model::RopeOptions& rope);
/// Adds --power-percent and --power-percent-on-battery. `limit` outlives the command.
void add_power_flags(CLI::App& command, engine::PowerLimit& limit);

/// A model without an engine. Members are destroyed in reverse order.
struct LoadedRunner {
  loader::Device device;
  loader::MemoryPlan plan;  ///< the runner has its weights and scratch; the KV cache is the caller's
  std::unique_ptr<model::PackCache> pack_cache;  ///< null: none
  std::unique_ptr<model::Runner> runner;
};

struct LoadFlags {
  std::string model;  ///< a file or a name, see find_model; of what found() returns, the path of its file
  std::string chat_template_file;
  std::string template_variables;
  std::string reasoning = "auto";
  std::shared_ptr<engine::PowerLimit> power;  ///< null: the command's engines have none of their own
  loader::LoadOptions options;
  api::GenerationDefaults made;  ///< of a model that was made of another one: for what the flags do not say

  /// Adds the flags of a model, for verbs that write text. A file that is not required has flags besides its place.
  void add_to(CLI::App& command, bool model_required);
  /// Adds the same without its file.
  void add_model_flags(CLI::App& command);
  /// Adds the flags of its chat template, for verbs that answer in conversations.
  void add_template_flags(CLI::App& command);
  /// Adds flags that say where and how exactly a model is computed, for every verb that loads one.
  void add_runner_flags(CLI::App& command);
  /// The same with the model's file in place of its name, and with what was made of it where the flags say nothing;
  /// the variable CAIRN_THREADS is read too. Errors: those of find_model and apply_made; kInvalidArgument for the
  /// variable.
  Result<LoadFlags> found(const ModelSearch& search = {}) const;
  /// Replaces the names that --draft and --lora have by files. `folder`: of Cairn's own models; empty: the default one.
  /// Errors: those of find_draft_file and find_adapter_file, with the flag.
  Result<void> find_companions(const std::string& folder);
  /// Errors: --chat-template or --chat-template-kwargs cannot be read.
  Result<loader::LoadOptions> load_options() const;
  /// Loads the model of what found() returned.
  Result<std::unique_ptr<loader::LoadedModel>> load() const;
  /// Opens its file, for load_runner(). Errors: those of gguf::Reader::open and model::set_rope_options.
  Result<gguf::Reader> open_file() const;
  /// The same without an engine. `file` is open as `model`, a decoder, and outlives what is returned. `sizes` are
  /// `options.model` with the sizes of the steps that a verb without an engine runs, for so many sequences. Errors:
  /// those of choose_device and load_model.
  /// `watcher` sees the model's products and outlives what is returned; null: nobody does.
  Result<LoadedRunner> load_runner(const gguf::Reader& file, model::ModelOptions sizes, int32_t sequences,
                                   calibrate::ProductWatcher* watcher = nullptr) const;

 private:
  void add_computing_flags(CLI::App& command);
};

/// Warns if conversations with the model will be rendered with a template that is not its own.
void warn_without_template(const loader::LoadedModel& model);

/// Adds --log-level, for commands that log.
void add_log_flag(CLI::App& command);

}  // namespace cairn
