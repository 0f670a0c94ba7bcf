#include "model/decoder/latent_attention.h"

#include <algorithm>
#include <vector>

#include "kernels/backend.h"

namespace cairn {

void LatentAttention::Activations::add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows) {
  const MlaConfig& latent = *config.latent;
  const IndexerConfig indexer = latent.indexer.value_or(IndexerConfig{});
  const int64_t head_rows = rows * config.heads;
  arena.add(query_low, rows * latent.q_lora_rank);
  arena.add(query, head_rows * latent.query_dim());
  arena.add(query_nope, head_rows * latent.nope);
  arena.add(heads_rank, head_rows * latent.rank);
  arena.add(query_rows, head_rows * latent.row_dim());
  arena.add(row, rows * latent.row_dim());
  arena.add(row_rank, rows * latent.rank);
  arena.add(heads, head_rows);
  arena.add(index_query, rows * indexer.heads * indexer.key_dim);
  arena.add(index_key, rows * indexer.key_dim);
  arena.add(index_shares, rows * indexer.heads);
  arena.add(chosen, rows * indexer.most);
}

int64_t LatentAttention::bytes(const DecoderConfig& config, int32_t rows) {
  ActivationArena arena;
  Activations activations;
  activations.add_to(arena, config, rows);
  return arena.bytes();
}

void LatentAttention::add_work(const DecoderConfig& config, int32_t rows, WorkspaceSizes& sizes) {
  const MlaConfig& latent = *config.latent;
  // Products per head have an input for each.
  const int64_t choices = int64_t{rows} * config.heads;
  sizes.inputs.push_back({choices, std::max(latent.rank, latent.nope)});
  sizes.inputs.push_back({rows, latent.q_lora_rank});
  sizes.expert_choices = std::max(sizes.expert_choices, choices);
  sizes.experts = std::max<int64_t>(sizes.experts, config.heads);
  sizes.latent = {
      .rows = rows, .heads = config.heads, .context_tokens = config.context_tokens, .row_dim = latent.row_dim()};
  if (!latent.indexer) return;
  sizes.latent.choose_heads = latent.indexer->heads;
  sizes.latent.choose_dim = latent.indexer->key_dim;
}

Result<LatentAttention> LatentAttention::create(Backend& backend, const DecoderConfig& config, int32_t rows) {
  if (backend.latent() == nullptr) {
    return fail(Code::kUnsupported, "{} has no attention over latent rows, which this model needs",
                backend.description());
  }
  LatentAttention attention(backend, config);
  attention.activations_.add_to(attention.arena_, config, rows);
  CAIRN_TRY_VOID(attention.arena_.allocate(backend));
  std::vector<int32_t> heads(static_cast<size_t>(rows) * config.heads);
  for (size_t i = 0; i < heads.size(); ++i) heads[i] = static_cast<int32_t>(i % config.heads);
  backend.write(heads.data(), static_cast<int64_t>(heads.size() * sizeof(int32_t)), attention.activations_.heads);
  return attention;
}

void LatentAttention::run(const LatentWeights& weights, const LatentStep& step, const float* x, float* attended,
                          float* out) const {
  const MlaConfig& latent = *description_->latent;
  project(weights, step, x);
  store_row(weights, step);
  RowSource source{.kv = step.attention.kv, .slices = step.attention.slices};
  if (step.chooses) choose(weights, step);
  if (latent.indexer) {
    source.chosen = activations_.chosen;
    source.chosen_max = latent.indexer->most;
  }
  make_queries(weights, step);
  const RowAttentionParams params{
      .heads = description_->heads, .value_dim = latent.rank, .scale = description_->attention_scale};
  backend_->latent()->attend_rows(params, {&source, 1}, activations_.query_rows, activations_.heads_rank);
  const MatmulTarget value[] = {weights.value.to(attended)};
  backend_->grouped_matmul(value, activations_.heads_rank, step.attention.rows, activations_.heads, description_->heads,
                           true);
  const MatmulTarget output[] = {weights.output.to(out)};
  backend_->matmul(output, attended, step.attention.rows);
}

// All that is made of x, and the query.
void LatentAttention::project(const LatentWeights& weights, const LatentStep& step, const float* x) const {
  const bool low = description_->latent->q_lora_rank > 0;
  const MatmulTarget query = weights.query.to(activations_.query);
  const MatmulTarget of_x[] = {low ? weights.query_low.to(activations_.query_low) : query,
                               weights.row.to(activations_.row), weights.indexer.key.to(activations_.index_key),
                               weights.indexer.shares.to(activations_.index_shares)};
  backend_->matmul(std::span(of_x).first(step.chooses ? 4 : 2), x, step.attention.rows);
  if (!low) return;
  weights.query_norm.run(*backend_, activations_.query_low, step.attention.rows, activations_.query_low);
  const MatmulTarget of_low[] = {query, weights.indexer.query.to(activations_.index_query)};
  backend_->matmul(std::span(of_low).first(step.chooses ? 2 : 1), activations_.query_low, step.attention.rows);
}

// The latent part is normalised, the rest turns, if there is a rope.
void LatentAttention::store_row(const LatentWeights& weights, const LatentStep& step) const {
  const MlaConfig& latent = *description_->latent;
  const int32_t dim = latent.row_dim();
  backend_->copy_columns(activations_.row, dim, activations_.row_rank, latent.rank, step.attention.rows, latent.rank);
  weights.row_norm.run(*backend_, activations_.row_rank, step.attention.rows, activations_.row_rank);
  backend_->copy_columns(activations_.row_rank, latent.rank, activations_.row, dim, step.attention.rows, latent.rank);
  if (step.attention.rope != nullptr) {
    const RopeHeads rotated[] = {{activations_.row + latent.rank, 1}};
    backend_->rope(step.attention.rope->style, step.attention.rope_table, latent.rope, rotated, step.attention.rows,
                   dim);
  }
  backend_->latent()->store_rows(step.attention.kv, step.attention.slices, activations_.row);
}

// Its rope turns the first elements.
void LatentAttention::choose(const LatentWeights& weights, const LatentStep& step) const {
  const MlaConfig& latent = *description_->latent;
  const IndexerConfig& indexer = *latent.indexer;
  weights.indexer.key_norm.run(*backend_, activations_.index_key, step.attention.rows, activations_.index_key);
  const RopeHeads rotated[] = {{activations_.index_query, indexer.heads}, {activations_.index_key, 1}};
  backend_->rope(indexer.rope_style, step.attention.rope_table, latent.rope, rotated, step.attention.rows,
                 indexer.key_dim);
  backend_->latent()->store_rows(step.index_keys, step.attention.slices, activations_.index_key);
  backend_->latent()->select_topk({.heads = indexer.heads, .most = indexer.most}, step.index_keys,
                                  step.attention.slices, activations_.index_query, activations_.index_shares,
                                  activations_.chosen);
}

void LatentAttention::make_queries(const LatentWeights& weights, const LatentStep& step) const {
  const MlaConfig& latent = *description_->latent;
  const int32_t heads = description_->heads;
  const int64_t queries = int64_t{step.attention.rows} * heads;
  const int32_t from = latent.query_dim(), to = latent.row_dim();
  backend_->copy_columns(activations_.query, from, activations_.query_nope, latent.nope, queries, latent.nope);
  const MatmulTarget key[] = {weights.key.to(activations_.heads_rank)};
  backend_->grouped_matmul(key, activations_.query_nope, step.attention.rows, activations_.heads, heads, true);
  if (step.attention.rope != nullptr) {
    const RopeHeads rotated[] = {{activations_.query + latent.nope, heads}};
    backend_->rope(step.attention.rope->style, step.attention.rope_table, latent.rope, rotated, step.attention.rows,
                   from);
  }
  backend_->copy_columns(activations_.heads_rank, latent.rank, activations_.query_rows, to, queries, latent.rank);
  backend_->copy_columns(activations_.query + latent.nope, from, activations_.query_rows + latent.rank, to, queries,
                         latent.rope);
  if (!step.attention.temperatures.empty()) {
    backend_->scale_rows(activations_.query_rows, step.attention.temperatures, int64_t{heads} * to);
  }
}

}  // namespace cairn
