/// How the machine's memory is divided before a model is loaded.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/bytes_text.h"
#include "gguf/reader.h"
#include "loader/device.h"
#include "model/model.h"

namespace cairn::loader {

/// Left to the operating system, the program and its clients.
inline constexpr int64_t kReservedBytes = 256ll << 20;
/// A context that memory makes shorter than this is refused rather than offered.
inline constexpr int32_t kContextTokensMin = 512;
/// Pages of a window group that a sequence holds besides its window: that begins in the middle of a page, and so does
/// the next row.
inline constexpr int32_t kWindowPagesExtra = 2;
/// Windows of sequences that run take one part in so many of the KV memory at most, unless that were less than one's.
inline constexpr int64_t kWindowShare = 2;
/// One page of a window group in so many of a full one is for windows that were left behind: earlier boundaries to
/// resume at. Together they take one part in kKeptShare of what full pages take at most.
inline constexpr int32_t kWindowPagesKept = 8;
inline constexpr int64_t kKeptShare = 2;
/// State slots for checkpoints, for each sequence that may run; and slots, of the two together, that are the least of
/// use: one to run with, one to resume from.
inline constexpr int32_t kCheckpointsPerSequence = 2;
inline constexpr int32_t kStateSlotsMin = 2;
/// State slots take one part in so many of the KV memory at most, unless that were less than kStateSlotsMin.
inline constexpr int64_t kStateShare = 2;

struct MemoryRequest {
  int32_t context_tokens = 0;      ///< 0: what the model was trained for, or less if memory is short
  int64_t kv_bytes = 0;            ///< 0: `sequences` whole contexts, or less if memory is short
  int32_t sequences = 4;           ///< whole contexts, see kv_bytes
  int32_t sequences_running = 64;  ///< in a batch at most, whatever their lengths
  int32_t step_rows = model::ModelOptions{}.batch_tokens_max;
  int64_t kv_host_bytes = 0;  ///< of a second tier, which is no part of the plan: the cache is larger for it
  bool kv_disk = false;       ///< whether there is a disk tier, whose queues are no part of the plan either
  /// Bytes of the machine's memory, for weights, scratch, cache and all, where it has more.
  int64_t host_bytes_max = std::numeric_limits<int64_t>::max();
  int64_t host_bytes_freed = 0;  ///< of the machine's memory that others give back before the model is loaded
  int64_t kv_tokens_max = 0;     ///< positions of all sequences together, whatever else is asked for; 0: no bound
};

/// What one stage has of its device's memory.
struct StagePlan : model::StageMemory {
  std::vector<int32_t> kv_pages;  ///< of the KV groups on its device
  int64_t kv_tokens = 0;          ///< positions of all sequences together that they hold
  int32_t window_sequences = 0;   ///< whose windows have room beside each other, however long; 0: there are no windows
  int64_t kv_bytes = 0;
  int64_t index_bytes = 0;  ///< what finds and counts the KV pages
  int64_t available_bytes = 0;

  int64_t bytes() const { return weight_bytes + scratch_bytes + kv_bytes + index_bytes; }
  /// "weights 1.2 GiB, KV cache 512.0 MiB (16384 tokens), its index 200.0 KiB, scratch 3.0 MiB; 20.1 GiB available"
  std::string text() const;
};

/// How a model's memory is divided: one stage for each device.
struct MemoryPlan {
  std::vector<StagePlan> stages;
  int32_t context_tokens = 0;     ///< of one sequence, which fits in every group
  bool whole_context = false;     ///< that is as many as the model was trained for, or as were asked for
  std::vector<int32_t> kv_pages;  ///< of every KV group
  int64_t kv_tokens = 0;          ///< positions of all sequences together, which every stage holds

  int64_t bytes() const;          ///< of all stages
  bool weights_in_place() const;  ///< of any stage
};

/// What memory a stage can have.
struct StageDevice {
  int64_t available_bytes = 0;
  std::string name;  ///< for errors
};

/// What a plan may count on of the machine's memory: MemoryRequest::host_bytes_max and what every plan leaves free,
/// where there is more.
int64_t bounded_host_bytes(int64_t available_bytes, int64_t host_bytes_max);

/// Memory of several devices, one for each of the model's stages; they share kv_bytes. Errors: kOutOfMemory with every
/// figure of a stage, its device and what there is, kInvalidArgument (kv_bytes below one page of every group).
Result<MemoryPlan> plan_memory(const model::ModelMemory& model, const MemoryRequest& request,
                               std::span<const StageDevice> devices);
/// Overload for a single device.
Result<MemoryPlan> plan_memory(const model::ModelMemory& model, const MemoryRequest& request, int64_t available_bytes);
/// What load_model will find on that device, of which `own_taken` bytes of the last stage's backend and kv_host_bytes
/// of the machine's are spoken for. Errors: model_memory's too.
Result<MemoryPlan> plan_device_memory(const gguf::Reader& file, const Device& device,
                                      const model::ModelOptions& options, const MemoryRequest& request,
                                      int64_t own_taken = 0);

}  // namespace cairn::loader
