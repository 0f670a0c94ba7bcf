/// All weights of DeepSeek V4, by the tensor names that GGUF files give them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "model/deepseek4/description.h"
#include "model/weights/binder.h"

namespace cairn::deepseek4 {

/// Logits of stream shares and what they are scaled and moved by.
struct StreamWeights {
  Linear logits;
  Buffer scale;
  Buffer base;
};

/// Makes compressed rows. `inputs` gives [values | scores], `biases` are [ratio, width].
struct CompressorWeights {
  Linear values;
  Linear scores;
  Buffer biases;
  Buffer norm;
};

/// down(silu(gate x) * up x), clamped.
struct FeedForwardWeights {
  Linear gate;
  Linear up;
  Linear down;
};

struct LayerWeights {
  StreamWeights attention_streams;
  Buffer attention_norm;
  Linear query_down;
  Buffer query_norm;
  Linear query_up;
  Linear key_value;
  Buffer key_value_norm;
  Buffer sinks;
  Linear output_groups;  ///< [groups, output_rank, heads of a group * head_dim]
  Linear output;
  CompressorWeights compressor;  ///< of layers with compressed rows
  Linear index_query;            ///< of indexed layers, as the next two
  Linear index_weights;
  CompressorWeights index_compressor;

  StreamWeights feed_forward_streams;
  Buffer feed_forward_norm;
  Linear router;
  Buffer router_bias;                  ///< empty: none
  std::vector<int32_t> token_experts;  ///< [vocabulary, used] of hashed layers; empty in others
  FeedForwardWeights routed;
  FeedForwardWeights shared;
};

struct ModelWeights {
  Weight embedding;
  std::vector<LayerWeights> layers;
  StreamWeights output_streams;
  Buffer output_norm;
  Linear output;
};

Result<ModelWeights> load_weights(Binder& binder, const gguf::Reader& file, const ModelDescription& description);

}  // namespace cairn::deepseek4
