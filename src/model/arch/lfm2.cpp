#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// LFM2, dense and mixtures: short convolutions with gates before and behind, and attention in a few layers. The norm
// before the output has the name of one of embeddings.
Result<void> read_lfm2_config(const MetadataReader& keys, DecoderConfig& config) {
  RecurrentConfig convolution;
  CAIRN_TRY(convolution.taps, keys.integer("shortconv.l_cache", 1, kernels::kConvolutionTapsMax));
  convolution.channels = config.embedding;
  config.recurrent = convolution;
  mix_otherwise_by(Mixer::kShortConvolution, config);
  config.qk_norm = QkNorm::kPerHead;
  config.output_norm = "token_embd_norm";
  if (config.heads > 0) {
    CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
    config.ropes.push_back(std::move(rope));
  }
  CAIRN_TRY_VOID(read_window_everywhere_config(keys, 0, config));
  if (keys.architecture() != "lfm2moe") return {};
  CAIRN_TRY_VOID(read_experts_config(keys, true, config));
  return read_routing_config(keys, {.score = kernels::RouteScore::kSigmoid, .renormalise = true}, config);
}

}  // namespace cairn::model
