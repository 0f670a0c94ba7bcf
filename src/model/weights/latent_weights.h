/// Weights of attention over latent rows (MLA), by the tensor names that GGUF files give them.
#pragma once

#include <string>

#include "base/error.h"
#include "model/config.h"
#include "model/parts/norm.h"
#include "model/weights/weight_loader.h"

namespace cairn {

/// Empty in layers without an indexer.
struct IndexerWeights {
  Linear query;  ///< from the normalised low-rank query
  Linear key;
  Norm key_norm;
  Linear shares;  ///< of the heads
};

struct LatentWeights {
  Linear query_low;  ///< empty if the query is made directly
  Norm query_norm;   ///< of what query_low gives
  Linear query;
  Linear row;
  Norm row_norm;  ///< of its first `rank` elements
  Linear key;     ///< heads as experts, [rank, nope]: a head's query to one for rows
  Linear value;   ///< heads as experts, [value_dim, rank]: what a head has read to its value
  IndexerWeights indexer;
  Linear output;
};

/// `prefix` is the layer's. Older files have one tensor, attn_kv_b, for key and value: it is taken apart, as float32.
/// Adapters may change either that tensor or the two, whichever the model's file has.
Result<LatentWeights> load_latent_weights(WeightLoader& binder, const std::string& prefix, const LayerConfig& layer,
                                          const DecoderConfig& config);

}  // namespace cairn
