#include "model/decoder/decoder_activations.h"

#include <algorithm>

namespace cairn::model {

void DsparkActivations::add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows, int64_t drafting) {
  const DsparkConfig& dspark = *config.dspark;
  const int64_t width = config.embedding, block_rows = drafting * dspark.block;
  arena.add(main_inputs, rows * std::ssize(dspark.targets) * width);
  arena.add(block_hidden, block_rows * width);
  arena.add(block_logits, block_rows * config.vocabulary);
  arena.add(draft_logits, drafting * config.vocabulary);
  arena.add(markov_rows, drafting * dspark.markov_rank);
  arena.add(confidence_inputs, drafting * (width + dspark.markov_rank));
  arena.add(confidence, drafting);
}

void DecoderActivations::add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows, int64_t logit_rows,
                                int64_t drafting) {
  const int64_t width = config.embedding;
  const MoeConfig moe = config.most_experts();
  const int64_t inner = std::max(config.dense_inner_elements(), moe.inner());
  const int64_t attention_rows = config.mla ? 0 : rows;
  residual.add_to(arena, config.residual, width, rows, logit_rows);
  arena.add(attention.query, attention_rows * config.query_elements());
  arena.add(attention.key, attention_rows * config.key_elements());
  arena.add(attention.value, attention_rows * config.value_elements());
  arena.add(attention.gate, config.gated_attention ? rows * config.attended_elements() : 0);
  arena.add(attention.attended, attention_rows * config.attended_elements());
  if (config.mla) mla.add_to(arena, *config.mla, rows);
  if (config.compressed) compressed.add_to(arena, *config.compressed, config.compressed_layers(), rows);
  if (!config.engram.layers.empty()) engrams.add_to(arena, config.engram, rows);
  feed_forward.add_to(arena, rows, config.feed_forward.gated ? inner : 0, inner);
  experts.add_to(arena, moe, rows, width);
  arena.add(experts.shared, moe.beside_dense ? rows * width : 0);
  arena.add(pairs, config.keeps_rows ? rows * config.residual.streams() * 2 * width : 0);
  ropes.add_to(arena, config.ropes, rows);
  if (config.dspark) dspark.add_to(arena, config, rows, drafting);
  arena.add(logits, logit_rows * config.vocabulary);
}

}  // namespace cairn::model
