/// From a GGUF file to a Runner: which architectures there are, and loading one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cache/kv_layout.h"
#include "gguf/reader.h"
#include "kernels/kv.h"
#include "model/control_vectors.h"
#include "model/runner.h"
#include "model/weights/pack_cache.h"

namespace cairn {

class Backend;

/// Layers that another backend than the model's own computes, for want of memory.
struct LayerPart {
  Backend* backend = nullptr;  ///< outlives the runner
  int32_t layers = 0;          ///< at least one
};
/// Parts before the model's own.
inline constexpr int32_t kEarlierPartsMax = 8;
/// KvGroup::device of the keys and values of part `part` of ModelOptions::earlier; those of the model's own are on 0.
constexpr int32_t device_of_part(size_t part) { return 1 + static_cast<int32_t>(part); }

struct ModelOptions {
  /// Positions per sequence; 0: what the file says the model was trained for.
  int32_t context_tokens = 0;
  KvType kv_type = KvType::kF32;
  int32_t batch_tokens_max = 512;  ///< rows of one step
  int32_t logits_max = 64;         ///< rows of logits of one step
  /// DeepSeek V4: what its cache holds is rounded as it was in training (to 8 and 4 bits), and kept as it then is.
  bool simulate_rounding = true;
  ControlVectorOptions directions{};
  /// The MTP module (Runner::has_mtp) is loaded, from `mtp_file` or else from the file, if it has one.
  bool load_mtp = false;
  /// A file with such a block alone (is_mtp_file()); outlives the runner. null: none.
  const gguf::Reader* mtp_file = nullptr;
  /// Memory that there is; 0: ask the backend.
  int64_t available_bytes = 0;
  /// No copy of weights that is larger than the file's (HostMatrix::in_place).
  bool weights_in_place = false;
  /// Copies of weights are looked for there, and saved there; outlives the runner. null: none. Not with `earlier`
  /// parts.
  PackCache* pack_cache = nullptr;
  /// The first layers, part by part; the first one has the embedding of tokens too. The model's own backend has at
  /// least one layer, and the output. Decoders only.
  std::vector<LayerPart> earlier{};
};

/// Whether the file is no model, but an MTP module for one: ModelOptions::mtp_file.
bool is_mtp_file(const gguf::Reader& file);

/// What a model, or the part of it that is on one backend, will take of memory but for keys and values.
struct PartMemoryPlan {
  int64_t weight_bytes = 0;       ///< tensors, as the backend has them: mapped from the file or copied
  bool weights_in_place = false;  ///< asked for, or because larger copies would take most of the memory there is
  int64_t scratch_bytes = 0;      ///< activations and working memory of a step, allocated by load_model
};

/// What a model will take of its backend's memory, known before anything is loaded.
struct ModelMemoryPlan : PartMemoryPlan {
  std::vector<PartMemoryPlan> earlier{};  ///< of other backends' memory, as ModelOptions::earlier
  KvLayout kv_layout;          ///< kv_layout.token_bytes() per position, allocated by whoever makes the page pool
  int32_t context_tokens = 0;  ///< positions per sequence, as load_model would have them
};

/// Goes through the file's tensors without reading them. Errors: load_model's, but for what needs their content.
Result<ModelMemoryPlan> model_memory_plan(const gguf::Reader& file, Backend& backend, const ModelOptions& options);

/// `file` and `backend` outlive the runner. Errors: kUnsupported (architecture or tensor type: the message lists what
/// there is), kCorruptFile (a tensor missing or of the wrong shape, a hyper-parameter out of range: named),
/// kInvalidArgument (a context beyond the trained one, a `mtp_file` for an architecture that takes none, as many
/// layers in `earlier` parts as there are or more), kOutOfMemory (weights, scratch and a first page of KV do not fit:
/// how much is needed and how much there is).
Result<std::unique_ptr<Runner>> load_model(const gguf::Reader& file, Backend& backend, const ModelOptions& options);

}  // namespace cairn
