/// What layers mix positions with, and the sizes of those that keep a state instead of keys and values.
#pragma once

#include <cstdint>

#include "kernels/recurrent_operations.h"

namespace cairn::model {

enum class Mixer {
  kAttention,
  kCompressedAttention,  ///< DeepSeek V4
  kGatedDeltaNet,        ///< Qwen3-Next, Qwen 3.5
  kKimiDeltaAttention,   ///< Kimi Linear
  kMamba2,
  kShortConvolution,    ///< LFM2
  kAttentionAndMamba2,  ///< side by side on the same input, their results added (Falcon-H1)
  kNone,                ///< a layer of a feed-forward alone (Nemotron-H)
};

/// The state of one layer is the window of its convolution, then, but for short convolutions, the matrices of its
/// heads. All recurrent layers of a model are alike.
struct RecurrentConfig {
  int32_t taps = 0;            ///< of the convolution
  int64_t channels = 0;        ///< that it goes over
  int32_t heads = 0;           ///< of values; 0: there is a convolution alone
  int32_t groups = 0;          ///< of heads that share a query and key, or B and C
  int32_t head_dim = 0;        ///< of values
  int32_t state_dim = 0;       ///< of queries and keys, or B and C
  bool strided_heads = false;  ///< DeltaRuleParams', as the next
  bool channel_decay = false;
  float length_epsilon = 0;  ///< of the lengths that queries and keys are divided by; 0: the norms'
  int64_t gate_rank = 0;     ///< decays and gates are made through so many elements (Kimi Delta Attention)
  bool normed = true;        ///< whether a norm with a gate follows (Mamba-2)
  int64_t embedding = 0;
  float norm_epsilon = 0;
  bool beside_attention = false;  ///< in some layers

  int64_t inner() const { return int64_t{heads} * head_dim; }
  /// Factors of the state that a row has.
  int64_t decays() const { return int64_t{heads} * (channel_decay ? state_dim : 1); }
  int64_t window_bytes() const { return kernels::state_part_bytes(int64_t{taps - 1} * channels); }
  int64_t layer_bytes() const { return window_bytes() + kernels::state_part_bytes(inner() * state_dim); }
};

}  // namespace cairn::model
