#include <algorithm>

#include "base/check.h"
#include "kernels/backend.h"
#include "model/decoder/decoder.h"

// The recurrent layers of Decoder, and the states behind drafts that are right.
namespace cairn::model {

void Decoder::recur(size_t layer, const cache::PagePool& pool, const float* x) {
  const LayerConfig& kind = config_.layers[layer];
  const StatePlace place = kv_.states[layer];
  const std::span<const kernels::AttentionSlice> slices = batch_.slices(place.group);
  for (size_t i = 0; i < slices.size(); ++i) {
    states_[i].state = pool.slot(place.group, slices[i].pages[0]) + place.offset;
  }
  const RecurrentStep step{.rows = rows_, .slices = states_, .drafts = draft_rows_, .layer = state_layer(layer)};
  const RecurrentWeights& weights = *weights_of(layer).recurrent;
  if (kind.attends()) {
    recurrent_->run_and_add(kind.mixer, weights, step, x, residual_.block());
  } else {
    recurrent_->run(kind.mixer, weights, step, x, residual_.block());
  }
}

int32_t Decoder::state_layer(size_t layer) const {
  return static_cast<int32_t>(kv_.states[layer].offset / config_.recurrent->layer_bytes());
}

Result<void> Decoder::keep_drafts(const cache::PagePool& pool, const BatchSlice& slice, int32_t count) {
  CAIRN_CHECK(count > 0 && count <= slice.drafts);
  if (!recurrent_) return {};
  const int32_t kept = slice.rows - slice.drafts;
  const auto first = std::ranges::lower_bound(draft_rows_, slice.row_begin + kept) - draft_rows_.begin();
  backend_.begin_step();
  for (auto layer = static_cast<size_t>(range_.begin); layer < static_cast<size_t>(range_.end); ++layer) {
    const LayerConfig& kind = config_.layers[layer];
    if (!kind.recurs()) continue;
    const StatePlace place = kv_.states[layer];
    const PageId slot = slice.pages->groups[place.group].front();
    const kernels::StateSlice rows{.row_begin = 0,
                                   .rows = count,
                                   .position_begin = slice.position_begin + kept,
                                   .state = pool.slot(place.group, slot) + place.offset};
    recurrent_->keep_drafts(kind.mixer, *weights_of(layer).recurrent, state_layer(layer), static_cast<int32_t>(first),
                            rows);
  }
  return backend_.finish();
}

}  // namespace cairn::model
