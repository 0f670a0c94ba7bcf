/// How a model is loaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "gguf/reader.h"
#include "kernels/kv.h"
#include "model/control_vectors.h"
#include "model/weights/pack_cache.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

class WeightNames;   // weights/weight_names.h
struct LoraAdapter;  // weights/lora.h

/// Some layers of a model, on one device. Stages follow each other in the order of the layers: the first has the
/// embedding of tokens too, the last the output. KvGroup::device is the number of a stage, from 0.
struct PipelineStage {
  kernels::Backend* backend = nullptr;  ///< outlives the runner
  int32_t layers = 0;                   ///< at least one; not read of the last stage, which has those that are left
};
inline constexpr int32_t kStagesMax = 9;

struct ModelOptions {
  /// Positions per sequence; 0: what the file says the model was trained for.
  int32_t context_tokens = 0;
  kernels::KvType kv_type = kernels::KvType::kF32;
  int32_t batch_tokens_max = 512;  ///< rows of one step
  int32_t logits_max = 64;         ///< rows of logits of one step
  /// DeepSeek V4: what its cache holds is rounded as it was in training (to 8 and 4 bits), and kept as it then is.
  bool simulate_rounding = true;
  ControlVectorOptions control_vectors{};
  /// LoRA adapters; read while the model is loaded.
  std::span<const LoraAdapter> adapters = {};
  /// The MTP module or the drafting head (Runner::has_mtp) is loaded, from `mtp_file` or else from the file, if it has
  /// one.
  bool load_mtp = false;
  /// A file with such a part alone, or an assistant (is_mtp_file()); outlives the runner. null: none.
  const gguf::Reader* mtp_file = nullptr;
  /// Memory that there is for the last stage; 0: ask the backend.
  int64_t available_bytes = 0;
  /// No copy of weights that is larger than the file's (HostMatrix::in_place).
  bool weights_in_place = false;
  /// Weights that are used where they lie in the file are read while the model is loaded, and not by its first steps.
  bool warm_weights = true;
  /// Copies of weights are looked for there, and saved there; outlives the runner. null: none. Not with
  /// several stages.
  PackCache* pack_cache = nullptr;
  /// Is increased by the bytes of each weight that is loaded, for who shows how far that is. null: nobody does.
  std::atomic<int64_t>* loaded_bytes = nullptr;
  /// The tensors of the weights that products take are noted there. null: nowhere.
  WeightNames* weight_names = nullptr;
};

}  // namespace cairn::model
