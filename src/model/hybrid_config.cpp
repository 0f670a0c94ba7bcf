#include <vector>

#include "model/config.h"

namespace cairn::model {

namespace {

/// The one number other than 0 of a list; 0 if there is none.
Result<int64_t> number_of_all(const MetadataReader& keys, const char* key, const std::vector<int64_t>& numbers) {
  int64_t one = 0;
  for (const int64_t number : numbers) {
    if (number == 0 || number == one) continue;
    if (one != 0) {
      return fail_at("key " + keys.full(key), Code::kUnsupported,
                     "{} has {} for one layer and {} for another; layers must have the same number, or 0",
                     keys.full(key), one, number);
    }
    one = number;
  }
  return one;
}

}  // namespace

Result<void> read_hybrid_feed_forward(const MetadataReader& keys, DecoderConfig& config) {
  const char* key = "feed_forward_length";
  if (!keys.contains(key) && keys.contains("expert_count")) return {};
  CAIRN_TRY(const std::vector<int64_t> widths, keys.per_layer(key, std::ssize(config.layers), 0, kFeedForwardMax));
  CAIRN_TRY(config.feed_forward.length, number_of_all(keys, key, widths));
  for (size_t i = 0; i < widths.size(); ++i) config.layers[i].feed_forward = widths[i] > 0;
  return {};
}

Result<void> read_hybrid_heads(const MetadataReader& keys, DecoderConfig& config) {
  const auto layers = std::ssize(config.layers);
  CAIRN_TRY(const std::vector<int64_t> heads, keys.per_layer("attention.head_count", layers, 0, kHeadsMax));
  CAIRN_TRY(config.heads, number_of_all(keys, "attention.head_count", heads));
  std::vector<int64_t> kv_heads = heads;
  if (keys.contains("attention.head_count_kv")) {
    CAIRN_TRY(kv_heads, keys.per_layer("attention.head_count_kv", layers, 0, config.heads));
  }
  CAIRN_TRY(config.kv_heads, number_of_all(keys, "attention.head_count_kv", kv_heads));
  if (config.kv_heads == 0) config.heads = 0;
  for (size_t i = 0; i < kv_heads.size(); ++i) {
    if (kv_heads[i] == 0 || heads[i] == 0) config.layers[i].mixer = Mixer::kNone;
  }
  return {};
}

Result<void> read_state_config(const MetadataReader& keys, DecoderConfig& config) {
  RecurrentConfig state;
  CAIRN_TRY(state.taps, keys.integer("ssm.conv_kernel", 1, kernels::kConvolutionTapsMax));
  CAIRN_TRY(state.state_dim, keys.integer("ssm.state_size", 1, kHeadDimMax));
  CAIRN_TRY(state.heads, keys.integer("ssm.time_step_rank", 1, kHeadsMax));
  CAIRN_TRY(state.groups, keys.integer("ssm.group_count", 1, state.heads));
  CAIRN_TRY(const int64_t inner, keys.integer("ssm.inner_size", 1, kFeedForwardMax));
  if (state.heads % state.groups != 0) {
    return fail(Code::kCorruptFile, "{} is {}, which does not divide the {} heads of {}", keys.full("ssm.group_count"),
                state.groups, state.heads, keys.full("ssm.time_step_rank"));
  }
  if (inner % state.heads != 0) {
    return fail(Code::kCorruptFile, "{} is {}, which does not divide the {} of {}", keys.full("ssm.time_step_rank"),
                state.heads, inner, keys.full("ssm.inner_size"));
  }
  state.head_dim = static_cast<int32_t>(inner / state.heads);
  state.channels = inner + 2 * int64_t{state.groups} * state.state_dim;
  config.recurrent = state;
  return {};
}

void mix_otherwise_by(Mixer mixer, DecoderConfig& config) {
  for (LayerConfig& layer : config.layers) {
    if (layer.mixer == Mixer::kNone) layer.mixer = mixer;
  }
}

}  // namespace cairn::model
