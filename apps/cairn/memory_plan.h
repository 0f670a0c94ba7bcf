/// How much memory a model takes, from its file's metadata alone: weights, and keys and values per token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gguf/reader.h"

namespace cairn {

struct KvPlan {
  int64_t layers = 0;              ///< that keep keys and values
  int64_t elements_per_token = 0;  ///< numbers kept for a token: over all layers, keys and values
  std::vector<std::string> notes;  ///< what makes the real need smaller or larger, for people
};

struct MemoryPlan {
  int64_t weight_bytes = 0;
  int64_t context_tokens = 0;  ///< trained; 0 if the file does not say
  std::optional<KvPlan> kv;
  std::string why_no_kv;  ///< if the metadata does not say enough for `kv`

  /// For elements of 4 bytes (f32) or 2 (f16). nullopt if the file does not say, or the product cannot be counted.
  std::optional<int64_t> kv_bytes(int64_t tokens, int64_t element_bytes) const;
};

/// An upper bound for models with windows or compressed layers; the engine's own plan at start is the exact one.
MemoryPlan plan_memory(const gguf::Reader& file);

}  // namespace cairn
