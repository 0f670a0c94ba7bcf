#include "model/arch/table.h"

namespace cairn::model {

namespace {

// Each layer is one of three: a feed-forward if it has a width, attention if it has heads, Mamba 2 otherwise.
void choose_layers(DecoderConfig& config) {
  for (LayerConfig& layer : config.layers) {
    layer.rope = kNoRope;
    if (layer.feed_forward) {
      layer.mixer = Mixer::kNone;
    } else if (layer.mixer == Mixer::kNone) {
      layer.mixer = Mixer::kMamba2;
    }
  }
}

}  // namespace

// Nemotron-H and Nemotron Nano 2 and 3, dense and mixtures: layers of one thing, with one norm; squares of ReLU without
// a gate, for experts too; attention without positions.
Result<void> read_nemotron_h_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(leave_out_mtp_layers(keys, config));
  CAIRN_TRY_VOID(read_state_config(keys, config));
  choose_layers(config);
  config.feed_forward_norm = "attn_norm";
  config.feed_forward.activation = kernels::Activation::kReluSquared;
  config.feed_forward.gated = false;
  // Files say how heads would be rotated, and have an epsilon for layer norms too.
  for (const char* key : {"rope.dimension_count", "rope.scaling.finetuned", "attention.layer_norm_epsilon"}) {
    keys.mark_read(key);
  }
  if (keys.architecture() != "nemotron_h_moe") return {};
  CAIRN_TRY_VOID(read_experts_config(keys, true, config));
  // Nemotron 3 Super.
  CAIRN_TRY(config.experts->latent, keys.integer_or("moe_latent_size", 0, 0, kEmbeddingMax));
  return read_routing_config(keys, {.score = kernels::RouteScore::kSigmoid, .renormalise = true}, config);
}

}  // namespace cairn::model
