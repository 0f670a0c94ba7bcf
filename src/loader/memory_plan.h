/// How the machine's memory is divided before a model is loaded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/bytes_text.h"
#include "gguf/reader.h"
#include "loader/device.h"
#include "model/model.h"

namespace cairn {

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

struct MemoryWishes {
  int32_t context_tokens = 0;      ///< 0: what the model was trained for, or less if memory is short
  int64_t kv_bytes = 0;            ///< 0: `sequences` whole contexts, or less if memory is short
  int32_t sequences = 4;           ///< whole contexts, see kv_bytes
  int32_t sequences_running = 64;  ///< in a batch at most, whatever their lengths
  int32_t step_rows = ModelOptions{}.batch_tokens_max;
  int64_t kv_host_bytes = 0;  ///< of a second tier, which is no part of the plan: the cache is larger for it
  int64_t kv_tokens_max = 0;  ///< positions of all sequences together, whatever else is asked for; 0: no bound
};

struct MemoryPlan {
  int32_t context_tokens = 0;     ///< of one sequence, which fits in every group
  bool whole_context = false;     ///< that is as many as the model was trained for, or as were asked for
  std::vector<int32_t> kv_pages;  ///< of every KV group
  int64_t kv_tokens = 0;          ///< positions of all sequences together
  int32_t window_sequences = 0;   ///< whose windows have room beside each other, however long; 0: there are no windows
  int64_t weight_bytes = 0;
  bool weights_in_place = false;  ///< ModelOptions'
  int64_t scratch_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t index_bytes = 0;  ///< what finds and counts the KV pages
  int64_t available_bytes = 0;

  int64_t bytes() const { return weight_bytes + scratch_bytes + kv_bytes + index_bytes; }
  /// "weights 1.2 GiB, KV cache 512.0 MiB (16384 tokens), its index 200.0 KiB, scratch 3.0 MiB; 20.1 GiB available"
  std::string text() const;
};

/// Of a model on several backends (ModelOptions::earlier).
struct SplitPlan {
  MemoryPlan own;  ///< of the model's own; context_tokens, kv_tokens and kv_pages are those of all
  std::vector<MemoryPlan> earlier{};

  bool weights_in_place() const;  ///< of any
};

/// What a backend of an earlier part has.
struct PartMemory {
  int64_t available_bytes = 0;
  std::string name;  ///< for errors
};

/// Errors: kOutOfMemory with every part and what there is, kInvalidArgument (kv_bytes below one page of every group).
Result<MemoryPlan> plan_memory(const ModelMemoryPlan& model, const MemoryWishes& wishes, int64_t available_bytes);
/// The same for several backends with memory of their own, which share kv_bytes; `earlier` as the model's. Errors say
/// whose memory it is.
Result<SplitPlan> plan_split_memory(const ModelMemoryPlan& model, const MemoryWishes& wishes, int64_t available_bytes,
                                    std::span<const PartMemory> earlier);
/// What load_model will find on that device, of which `own_taken` bytes of the model's own backend and kv_host_bytes of
/// the machine's are spoken for. Errors: model_memory_plan's too.
Result<SplitPlan> plan_device_memory(const gguf::Reader& file, const Device& device, ModelOptions options,
                                     const MemoryWishes& wishes, int64_t own_taken = 0);

}  // namespace cairn
