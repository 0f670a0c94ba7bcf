#include "model/decoder/decoder_activations.h"

#include <algorithm>

namespace cairn {

void DecoderActivations::add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows, int64_t logit_rows) {
  const int64_t width = config.embedding;
  const MoeConfig moe = config.experts.value_or(MoeConfig{});
  const int64_t inner = std::max(config.dense_inner_elements(), moe.inner());
  const int64_t attention_rows = config.mla ? 0 : rows;
  arena.add(hidden, rows * width);
  arena.add(normed, rows * width);
  arena.add(parallel, config.parallel_residual ? rows * width : 0);
  arena.add(attention.query, attention_rows * config.query_elements());
  arena.add(attention.key, attention_rows * config.key_elements());
  arena.add(attention.value, attention_rows * config.value_elements());
  arena.add(attention.gate, config.gated_attention ? rows * config.attended_elements() : 0);
  arena.add(attention.attended, attention_rows * config.attended_elements());
  if (config.mla) mla.add_to(arena, *config.mla, rows);
  arena.add(block, rows * width);
  feed_forward.add_to(arena, rows, config.feed_forward.gated ? inner : 0, inner);
  experts.add_to(arena, moe, rows, width);
  arena.add(experts.shared, moe.shared_width > 0 || moe.beside_dense ? rows * width : 0);
  arena.add(pairs, config.keeps_rows ? 2 * rows * width : 0);
  ropes.add_to(arena, config.ropes, rows);
  arena.add(last, std::max(rows, logit_rows) * width);
  arena.add(logits, logit_rows * config.vocabulary);
}

}  // namespace cairn
