/// All weights of an encoder, by the tensor names that GGUF files give them.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "model/encoder/encoder_config.h"
#include "model/parts/attention.h"
#include "model/parts/experts.h"
#include "model/parts/feed_forward.h"
#include "model/parts/norm.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

/// What the config leaves out is empty.
struct EncoderLayerWeights {
  Norm attention_pre_norm;
  std::unique_ptr<Attention> attention;
  Norm attention_post_norm;  ///< of the sum with kPostLn, else of what attention gives
  Norm feed_forward_pre_norm;
  std::unique_ptr<FeedForward> dense;
  std::unique_ptr<Experts> experts;  ///< instead
  Norm feed_forward_post_norm;
};

struct EncoderWeights {
  LookupTable tokens;
  kernels::Weight positions;
  kernels::Weight types;
  Norm embedding_norm;
  kernels::Buffer slopes;
  std::vector<EncoderLayerWeights> layers;
  Norm output_norm;
  Linear dense_2;
  Linear dense_3;
  Linear label_dense;
  Norm label_norm;
  Linear labels;
  std::shared_ptr<kernels::LowRankRows> adapter_rows;  ///< as in DecoderWeights
};

Result<EncoderWeights> load_encoder_weights(WeightLoader& loader, kernels::Backend& backend,
                                            const EncoderConfig& config);

}  // namespace cairn::model
