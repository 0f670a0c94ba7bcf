/// From a GGUF file to a Runner: which architectures there are, and loading one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cache/kv_layout.h"
#include "gguf/reader.h"
#include "model/model_options.h"
#include "model/runner.h"
#include "model/weights/wanted_tensors.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

/// Whether the file is no model, but an MTP module, a drafting head or an assistant for one: ModelOptions::mtp_file.
bool is_mtp_file(const gguf::Reader& file);

/// What one stage takes of its device's memory but for keys and values.
struct StageMemory {
  int64_t weight_bytes = 0;       ///< tensors, as the backend has them: mapped from the file or copied
  bool weights_in_place = false;  ///< asked for, or because larger copies would take most of the memory there is
  int64_t file_table_bytes = 0;   ///< engrams, whose rows are read from the file as they are needed: no part of a plan
  int64_t scratch_bytes = 0;      ///< activations and working memory of a step, allocated by load_model
};

/// What a model takes of memory, known before anything is loaded.
struct ModelMemory {
  std::vector<StageMemory> stages;
  cache::KvLayout kv_layout;   ///< kv_layout.token_bytes() per position, allocated by whoever makes the page pool
  int32_t context_tokens = 0;  ///< positions per sequence, as load_model would have them
};

/// Goes through the file's tensors without reading them. Errors: load_model's, but for what needs their content.
Result<ModelMemory> model_memory(const gguf::Reader& file, std::span<const PipelineStage> stages,
                                 const ModelOptions& options);
/// Overload for a single device.
Result<ModelMemory> model_memory(const gguf::Reader& file, kernels::Backend& backend, const ModelOptions& options);

/// The tensors that the file of a model must hold, by its metadata and its own tensors: these say which of those that
/// models may lack it has, whatever their shapes. An MTP module or a drafting head of the file belongs to them. Errors:
/// load_model's; kUnsupported for encoders.
Result<WantedTensors> wanted_tensors(const gguf::Reader& file, kernels::Backend& backend);

/// `file` and the stages' backends outlive the runner. Errors: kUnsupported (architecture or tensor type: the message
/// lists what there is; several stages of a model that cannot be split), kCorruptFile (a tensor missing or of the wrong
/// shape, a hyper-parameter out of range: named), kInvalidArgument (a context beyond the trained one, a `mtp_file` for
/// or adapters for an architecture that takes none, as many layers in all stages but the last as there are or more),
/// kOutOfMemory (weights, scratch and a first page of KV do not fit: how much is needed and how much there is).
Result<std::unique_ptr<Runner>> load_model(const gguf::Reader& file, std::span<const PipelineStage> stages,
                                           const ModelOptions& options);
/// Overload for a single device.
Result<std::unique_ptr<Runner>> load_model(const gguf::Reader& file, kernels::Backend& backend,
                                           const ModelOptions& options);

}  // namespace cairn::model
