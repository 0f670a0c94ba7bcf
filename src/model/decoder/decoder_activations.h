/// Arrays that a decoder computes with in a step.
#pragma once

#include <cstdint>

#include "model/activation_arena.h"
#include "model/config.h"

namespace cairn::model {

/// Arrays of the drafting head, where D is the sequences that draft at once and R the rows of a step.
struct DsparkActivations {
  float* main_inputs = nullptr;        ///< [R, targets, embedding]
  float* block_hidden = nullptr;       ///< [D, block, embedding], before the last norm
  float* block_logits = nullptr;       ///< [D, block, vocabulary], without what the Markov head adds
  float* draft_logits = nullptr;       ///< [D, vocabulary]: of one row of each block
  float* markov_rows = nullptr;        ///< [D, markov_rank]
  float* confidence_inputs = nullptr;  ///< [D, embedding + markov_rank]
  float* confidence = nullptr;         ///< [D]

  void add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows, int64_t drafting);
};

/// R is rows of the step, L rows of logits. Those that the model does not need have no elements. Where layers differ
/// there is room for the one with most.
struct DecoderActivations {
  ResidualActivations residual;
  AttentionActivations attention;
  MlaActivations mla;                         ///< instead
  CompressedAttentionActivations compressed;  ///< instead
  EngramActivations engrams;
  FeedForwardActivations feed_forward;
  ExpertsActivations experts;
  float* pairs = nullptr;  ///< [R, streams, 2, embedding], of a token and the row before it; for the MTP module
  RopeTables ropes;
  DsparkActivations dspark;
  float* logits = nullptr;  ///< [L, vocabulary], behind all others

  /// Adds them all, in this order; `drafting`: sequences that draft blocks at once.
  void add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows, int64_t logit_rows, int64_t drafting);
};

}  // namespace cairn::model
