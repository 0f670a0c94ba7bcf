/// A model that is loaded, and all that serving it takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/system/byte_budget.h"
#include "chat/chat_model.h"
#include "chat/chat_template.h"
#include "chat/constraints/constraint_tables.h"
#include "chat/output/output_parser.h"
#include "chat/prompt_context.h"
#include "engine/engine.h"
#include "gguf/reader.h"
#include "loader/device.h"
#include "loader/memory_plan.h"
#include "loader/model_facts.h"
#include "model/pooling.h"
#include "tokenizer/tokenizer.h"

namespace cairn::model {
class Embedder;
class PackCache;
class Runner;
}  // namespace cairn::model

namespace cairn::loader {

class ModelFiles;
struct DraftModel;

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
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  chat::ChatTemplate chat_template;
  std::string template_source;  ///< of chat_template; empty: it has one of its own
  chat::TemplateDefaults template_defaults;
  chat::OutputFormat output_format;  ///< how its chat answers are written
  std::unique_ptr<chat::ConstraintTables> constraints;
  Device device;
  std::unique_ptr<model::PackCache> pack_cache;  ///< null: none
  std::unique_ptr<gguf::Reader> mtp_file;        ///< file of an MTP module; null: none of its own
  std::unique_ptr<model::Runner> runner;         ///< null: an encoder
  std::unique_ptr<model::Embedder> embedder;     ///< null: no encoder
  model::EmbeddingAbility embedding;             ///< of the engine; the pooling is the model's own, and not kNone
  std::unique_ptr<DraftModel> draft;             ///< null: none
  std::unique_ptr<ModelFiles> files;             ///< of all that is mapped
  std::unique_ptr<engine::Engine> engine;

  ~LoadedModel();
  chat::PromptContext prompt_context() const;
  chat::ChatModel chat_model() const;
  ModelFacts facts() const;
};

/// Whoever holds one may use it, also after it has left the registry: it is destroyed once nobody does (Unloader).
using SharedModel = std::shared_ptr<const LoadedModel>;
/// The model's engine; whoever holds it holds the model.
std::shared_ptr<engine::Engine> shared_engine(const SharedModel& model);

}  // namespace cairn::loader
