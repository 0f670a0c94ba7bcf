/// Which models exist here and which are loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/system/byte_budget.h"
#include "chat/chat_model.h"
#include "chat/chat_template.h"
#include "chat/constraints/constraint_tables.h"
#include "chat/output/output_parser.h"
#include "chat/prompt_context.h"
#include "engine/engine.h"
#include "gguf/reader.h"
#include "kernels/kv.h"
#include "loader/device.h"
#include "loader/draft.h"
#include "loader/kv_disk.h"
#include "loader/memory_plan.h"
#include "loader/model_files.h"
#include "loader/model_scope.h"
#include "model/control_vectors.h"
#include "model/embedder.h"
#include "model/runner.h"
#include "model/weights/lora.h"
#include "model/weights/pack_cache.h"
#include "tokenizer/tokenizer.h"

namespace cairn {

class Backend;
class Unloader;

struct LoadOptions {
  /// Id that clients use; empty: the first alias, or else the file's name without ".gguf".
  std::string name;
  std::vector<std::string> aliases;  ///< other names for it
  int32_t context_tokens = 0;        ///< 0: trained context, bounded by the memory plan
  KvType kv_type = KvType::kF16;
  int64_t kv_bytes = 0;   ///< KV budget; 0: enough for `sequences` whole contexts, bounded by memory
  int32_t sequences = 4;  ///< see kv_bytes
  int32_t queue_max = 256;
  int32_t sequences_max = 64;       ///< sequences at once
  int32_t step_ms = 30;             ///< see EngineOptions::step
  int32_t tenant_requests_max = 0;  ///< see EngineOptions
  bool prefix_cache = true;
  int64_t kv_host_bytes = 0;  ///< see EngineOptions
  KvDiskOptions kv_disk{};
  SpeculationOptions speculation{};
  /// File of a smaller model for speculation, or of an MTP module for this one (is_mtp_file); empty: the
  /// model's own block, if it has one, or else prompt lookup.
  std::string draft_model;
  int32_t gpu_layers = kGpuLayersAuto;  ///< see DeviceRequest
  int32_t threads = 0;                  ///< 0: one per usable core
  std::string isa;
  ControlVectorOptions control_vectors{};
  std::vector<LoraFile> lora;     ///< adapters, whose products are added
  bool simulate_rounding = true;  ///< see ModelOptions
  bool pack_cache = false;        ///< weights as the kernels read them are kept in a file beside the model
  std::string chat_template;      ///< replaces the file's; empty: the file's
  TemplateDefaults template_defaults{};
};

/// A model with everything that serving it takes. Immutable once loaded; members are destroyed in reverse order.
struct LoadedModel {
  ByteShare memory;  ///< of the budget that models share (ModelManager); empty: none is set
  std::string name;
  std::vector<std::string> aliases;
  std::string file_name;  ///< without its folder
  std::string architecture;
  std::string quantisation;  ///< "Q4_K_M", "F16", ...: general.file_type, or the type of most bytes
  int64_t parameters = 0;
  int64_t file_bytes = 0;
  uint64_t fingerprint = 0;  ///< of the file's content, see gguf/fingerprint.h
  int64_t created_unix_s = 0;
  int32_t sequences_max = 0;            ///< that run at once
  std::vector<std::string> adapters{};  ///< files of LoRA adapters, without their folders, in order of their numbers
  MemoryPlan plan;
  gguf::Reader file;
  std::unique_ptr<Tokenizer> tokenizer;
  ChatTemplate chat_template;
  std::string template_source;  ///< of chat_template; empty: it has one of its own
  TemplateDefaults template_defaults;
  OutputFormat output_format;  ///< how its chat answers are written
  std::unique_ptr<ConstraintTables> constraints;
  Device device;
  std::unique_ptr<PackCache> pack_cache;   ///< null: none
  std::unique_ptr<gguf::Reader> mtp_file;  ///< file of an MTP module; null: none of its own
  std::unique_ptr<Runner> runner;          ///< null: an encoder
  std::unique_ptr<Embedder> embedder;      ///< null: no encoder
  EmbeddingAbility embedding;              ///< of the engine; the pooling is the model's own, and not kNone
  std::unique_ptr<DraftModel> draft;       ///< null: none
  std::unique_ptr<ModelFiles> files;       ///< of all that is mapped
  std::unique_ptr<Engine> engine;

  ~LoadedModel();
  PromptContext prompt_context() const;
  ChatModel chat_model() const;
};

struct MemoryPlan;

/// A model's file on its way to being loaded.
class ModelLoad {
 public:
  /// Reads its header and tokenizer. Errors: those of the parts.
  static Result<ModelLoad> open(const std::filesystem::path& path, const LoadOptions& options);
  ModelLoad(ModelLoad&& other) noexcept;
  ~ModelLoad();

  /// Chooses the device and divides its memory, of which the model may take `host_bytes_max` of the machine's. May be
  /// called again. Valid until then. Errors: kOutOfMemory says how much is needed and how much there is.
  Result<const MemoryPlan*> plan(int64_t host_bytes_max);
  /// Of the last plan: bytes of the machine's memory.
  int64_t host_bytes() const;
  /// By the last plan, which is logged; reads the weights and starts the engine. Once. Errors: those of the parts.
  Result<std::unique_ptr<LoadedModel>> load() &&;

 private:
  struct State;
  explicit ModelLoad(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Opens, plans memory (logged: weights, KV, scratch, what is left), loads and starts the engine. Errors: those of the
/// parts; kOutOfMemory says how much is needed and how much there is.
Result<std::unique_ptr<LoadedModel>> load_model_file(const std::filesystem::path& path, const LoadOptions& options);

/// Whoever holds one may use it, also after it has left the registry: it is destroyed once nobody does (Unloader).
using SharedModel = std::shared_ptr<const LoadedModel>;
/// The model's engine; whoever holds it holds the model.
std::shared_ptr<Engine> shared_engine(const SharedModel& model);

/// Names of no model of which the log is told.
inline constexpr size_t kForeignNamesMax = 256;

/// Models that clients may name. Thread-safe: models may come and go while others look.
class Registry {
 public:
  Registry();
  /// Waits for the models that nobody holds any more to be destroyed.
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  /// Until there is a model.
  bool loading() const;
  /// Error: kInvalidArgument, a model of that name or with that alias is here already.
  Result<SharedModel> add(std::unique_ptr<LoadedModel> model);
  /// The model that answers a request for `name`, which may be an alias. An empty name gives the first model. While
  /// there is one model, it answers every name: clients have names that they cannot leave out. The log has a line of
  /// each such name, of kForeignNamesMax at most. Errors: kUnavailable while loading; kNotFound, listing the names
  /// there are; those of ModelFiles::check.
  Result<SharedModel> find(std::string_view name, const ModelScope& scope) const;
  /// The same, but only by its own name or an alias: for clients that ask whether there is such a model.
  Result<SharedModel> find_exactly(std::string_view name, const ModelScope& scope) const;
  /// The models that the scope shows; no other is found either.
  std::vector<SharedModel> list(const ModelScope& scope) const;
  /// The model leaves the table: no request finds it any more. Those that it answers go on to their end, and then it is
  /// destroyed. False: it is not here.
  bool remove(const SharedModel& model);
  /// The same, unless somebody holds it. False: somebody does, or it is not here.
  bool remove_idle(const std::weak_ptr<const LoadedModel>& model);
  /// Models that have left the table and are not destroyed yet.
  size_t leaving() const;
  /// Removes every model and stops every engine, of models that were removed before too: what they answer is cut off.
  void clear();

 private:
  void note_foreign_name(std::string_view name, const LoadedModel& answering) const;

  mutable std::mutex mutex_;
  const std::shared_ptr<Unloader> unloader_;
  std::vector<SharedModel> models_;
  std::vector<std::weak_ptr<const LoadedModel>> removed_;     // some of which still answer
  mutable std::set<std::string, std::less<>> foreign_names_;  // that the log has a line of
};

}  // namespace cairn
