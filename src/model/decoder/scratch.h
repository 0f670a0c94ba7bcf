/// Memory for the activations of one step: which arrays there are, how large, in one allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "kernels/backend.h"
#include "model/config.h"

namespace cairn {

/// Arrays of float32 but for kExpertIds (int32). R is rows of the step, L rows of logits.
enum class ScratchPart : size_t {
  kHidden,         ///< [R, embedding], the residual stream
  kNormed,         ///< [R, embedding]
  kQuery,          ///< [R, heads * key_dim]
  kKey,            ///< [R, kv_heads * key_dim]
  kValue,          ///< [R, kv_heads * value_dim]
  kAttended,       ///< [R, heads * value_dim]
  kBlock,          ///< [R, embedding], what attention or feed-forward adds
  kGate,           ///< [R, inner], or [R, used, width] of the experts
  kUp,             ///< the same
  kRouter,         ///< [R, experts]
  kExpertIds,      ///< [R, used]
  kExpertWeights,  ///< [R, used]
  kExpertOut,      ///< [R, used, embedding]
  kShared,         ///< [R, embedding]
  kSharedGate,     ///< [R]
  kRope,           ///< [ropes, R, dims of each]
  kLast,           ///< [max(R, L), embedding], rows that logits are wanted of, or the rows themselves
  kLogits,         ///< [L, vocabulary]
  kParts,          ///< how many there are
};

class Scratch {
 public:
  /// Bytes that create() takes.
  static int64_t bytes(const DecoderConfig& config, int32_t rows, int32_t logit_rows);
  static Result<Scratch> create(Backend& backend, const DecoderConfig& config, int32_t rows, int32_t logit_rows);

  float* operator[](ScratchPart part) const { return static_cast<float*>(at(part)); }
  int32_t* expert_ids() const { return static_cast<int32_t*>(at(ScratchPart::kExpertIds)); }

 private:
  using Sizes = std::array<int64_t, static_cast<size_t>(ScratchPart::kParts)>;
  static Sizes sizes(const DecoderConfig& config, int64_t rows, int64_t logit_rows);
  void* at(ScratchPart part) const {
    return static_cast<std::byte*>(memory_.data()) + offsets_[static_cast<size_t>(part)];
  }

  Buffer memory_;
  Sizes offsets_{};  // bytes
};

}  // namespace cairn
