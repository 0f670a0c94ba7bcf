/// Arrays that a decoder computes with in a step.
#pragma once

#include <cstdint>

#include "model/activation_arena.h"
#include "model/config.h"

namespace cairn {

/// R is rows of the step, L rows of logits. Those that the model does not need have no elements. Where layers differ
/// there is room for the one with most.
struct DecoderActivations {
  float* hidden = nullptr;    ///< [R, embedding], the residual stream
  float* normed = nullptr;    ///< [R, embedding]
  float* parallel = nullptr;  ///< [R, embedding], what the feed-forward beside attention reads
  AttentionActivations attention;
  MlaActivations mla;      ///< instead
  float* block = nullptr;  ///< [R, embedding], what attention or feed-forward adds
  FeedForwardActivations feed_forward;
  ExpertsActivations experts;
  float* pairs = nullptr;  ///< [R, 2, embedding], of a token and the row before it; for the MTP module
  RopeTables ropes;
  float* last = nullptr;    ///< [max(R, L), embedding], rows that logits are wanted of, or the rows themselves
  float* logits = nullptr;  ///< [L, vocabulary], behind all others

  /// Adds them all, in this order.
  void add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows, int64_t logit_rows);
};

}  // namespace cairn
