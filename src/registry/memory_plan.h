/// How the machine's memory is divided before a model is loaded.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "model/model.h"

namespace cairn {

/// Left to the operating system, the program and its clients.
inline constexpr int64_t kReservedBytes = 256ll << 20;
/// A context that memory makes shorter than this is refused rather than offered.
inline constexpr int32_t kContextTokensMin = 512;

struct MemoryWishes {
  int32_t context_tokens = 0;  ///< 0: what the model was trained for, or less if memory is short
  int64_t kv_bytes = 0;        ///< 0: `sequences` whole contexts, or less if memory is short
  int32_t sequences = 4;
};

struct MemoryPlan {
  int32_t context_tokens = 0;
  int32_t kv_pages = 0;
  int64_t weight_bytes = 0;
  int64_t scratch_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t available_bytes = 0;

  /// "weights 1.2 GiB, KV cache 512.0 MiB (16384 tokens), scratch 3.0 MiB; 20.1 GiB available"
  std::string text() const;
};

/// Errors: kOutOfMemory with every part and what there is, kInvalidArgument (kv_bytes below one page).
Result<MemoryPlan> plan_memory(const ModelMemoryPlan& model, const MemoryWishes& wishes, int64_t available_bytes);

/// "1.5 GiB"
std::string bytes_text(int64_t bytes);

}  // namespace cairn
