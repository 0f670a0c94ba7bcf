#include "model/decoder/scratch.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cairn {

Scratch::Sizes Scratch::sizes(const DecoderConfig& config, int64_t rows, int64_t logit_rows) {
  Sizes elements{};
  const auto set = [&elements](ScratchPart part, int64_t count) { elements[static_cast<size_t>(part)] = count; };
  const int64_t width = config.embedding;
  set(ScratchPart::kHidden, rows * width);
  set(ScratchPart::kNormed, rows * width);
  if (!config.latent) {
    set(ScratchPart::kQuery, rows * config.heads * config.key_dim);
    set(ScratchPart::kKey, rows * config.kv_heads * config.key_dim);
    set(ScratchPart::kValue, rows * config.kv_heads * config.value_dim);
  }
  set(ScratchPart::kAttended, rows * config.heads * config.value_dim);
  set(ScratchPart::kBlock, rows * width);
  const auto routed = [](const LayerConfig& layer) { return layer.routed; };
  int64_t inner = std::ranges::all_of(config.layers, routed) ? 0 : config.feed_forward;
  if (config.experts) {
    const MoeConfig& experts = *config.experts;
    const int64_t used = experts.route.used;
    inner = std::max({inner, used * experts.width, experts.shared_width});
    set(ScratchPart::kRouter, rows * experts.route.experts);
    set(ScratchPart::kExpertIds, rows * used);
    set(ScratchPart::kExpertWeights, rows * used);
    set(ScratchPart::kExpertOut, rows * used * width);
    if (experts.shared_width > 0) set(ScratchPart::kShared, rows * width);
    if (experts.shared_gated) set(ScratchPart::kSharedGate, rows);
  }
  set(ScratchPart::kGate, rows * inner);
  set(ScratchPart::kUp, rows * inner);
  int64_t rope_dims = 0;
  for (const RopeConfig& rope : config.ropes) rope_dims += rope.dims;
  set(ScratchPart::kRope, rows * rope_dims);
  set(ScratchPart::kLast, std::max(rows, logit_rows) * width);
  set(ScratchPart::kLogits, logit_rows * config.vocabulary);

  constexpr int64_t kAlignment = 64;
  Sizes bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = (elements[i] * int64_t{sizeof(float)} + kAlignment - 1) / kAlignment * kAlignment;
  }
  return bytes;
}

int64_t Scratch::bytes(const DecoderConfig& config, int32_t rows, int32_t logit_rows) {
  const Sizes all = sizes(config, rows, logit_rows);
  return std::accumulate(all.begin(), all.end(), int64_t{0});
}

Result<Scratch> Scratch::create(Backend& backend, const DecoderConfig& config, int32_t rows, int32_t logit_rows) {
  Scratch scratch;
  CAIRN_TRY(scratch.memory_, backend.allocate(bytes(config, rows, logit_rows)));
  const Sizes all = sizes(config, rows, logit_rows);
  std::exclusive_scan(all.begin(), all.end(), scratch.offsets_.begin(), int64_t{0});
  // Writes its zeros: the first prompt would wait for the system to clear the pages. Not those of logits, the last
  // part: few steps want more than a few rows of them.
  const int64_t touched = scratch.offsets_[static_cast<size_t>(ScratchPart::kLogits)] / int64_t{sizeof(float)};
  backend.clamp(static_cast<float*>(scratch.memory_.data()), touched, 0, 0);
  return scratch;
}

}  // namespace cairn
