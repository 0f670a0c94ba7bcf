#include "model/decoder/latent_attention.h"

#include <algorithm>
#include <vector>

namespace cairn {

int64_t LatentAttention::lay_out(const DecoderConfig& config, int64_t rows, std::byte* memory, Arrays& arrays) {
  const MlaConfig& latent = *config.latent;
  const int64_t heads = config.heads;
  int64_t bytes = 0;
  const auto place = [&]<class T>(T*& array, int64_t columns) {
    constexpr int64_t kAlignment = 64;
    if (memory != nullptr) array = reinterpret_cast<T*>(memory + bytes);
    bytes += (rows * columns * int64_t{sizeof(T)} + kAlignment - 1) / kAlignment * kAlignment;
  };
  place(arrays.query_low, latent.q_lora_rank);
  place(arrays.query, heads * latent.query_dim());
  place(arrays.query_nope, heads * latent.nope);
  place(arrays.q_lora_rank, heads * latent.rank);
  place(arrays.query_rows, heads * latent.row_dim());
  place(arrays.row, latent.row_dim());
  place(arrays.row_rank, latent.rank);
  place(arrays.heads, heads);
  if (latent.indexer) {
    place(arrays.index_query, int64_t{latent.indexer->heads} * latent.indexer->key_dim);
    place(arrays.index_key, latent.indexer->key_dim);
    place(arrays.index_shares, latent.indexer->heads);
    place(arrays.chosen, latent.indexer->most);
  }
  return bytes;
}

int64_t LatentAttention::bytes(const DecoderConfig& config, int32_t rows) {
  Arrays arrays;
  return lay_out(config, rows, nullptr, arrays);
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
  CAIRN_TRY(attention.memory_, backend.allocate(bytes(config, rows)));
  lay_out(config, rows, static_cast<std::byte*>(attention.memory_.data()), attention.arrays_);
  std::vector<int32_t> heads(static_cast<size_t>(rows) * config.heads);
  for (size_t i = 0; i < heads.size(); ++i) heads[i] = static_cast<int32_t>(i % config.heads);
  backend.write(heads.data(), static_cast<int64_t>(heads.size() * sizeof(int32_t)), attention.arrays_.heads);
  return attention;
}

void LatentAttention::run(const LatentWeights& weights, const LatentStep& step, const float* x, float* attended) const {
  const MlaConfig& latent = *description_->latent;
  project(weights, step, x);
  store_row(weights, step);
  RowSource source{.kv = step.kv, .slices = step.slices};
  if (latent.indexer) {
    choose(weights, step);
    source.chosen = arrays_.chosen;
    source.chosen_max = latent.indexer->most;
  }
  make_queries(weights, step);
  const RowAttentionParams params{
      .heads = description_->heads, .value_dim = latent.rank, .scale = description_->attention_scale};
  backend_->latent()->attend_rows(params, {&source, 1}, arrays_.query_rows, arrays_.q_lora_rank);
  const MatmulTarget value[] = {weights.value.to(attended)};
  backend_->grouped_matmul(value, arrays_.q_lora_rank, step.rows, arrays_.heads, description_->heads, true);
}

// All that is made of x, and the query.
void LatentAttention::project(const LatentWeights& weights, const LatentStep& step, const float* x) const {
  const bool low = description_->latent->q_lora_rank > 0;
  const MatmulTarget query = weights.query.to(arrays_.query);
  const MatmulTarget of_x[] = {low ? weights.query_low.to(arrays_.query_low) : query, weights.row.to(arrays_.row),
                               weights.indexer.key.to(arrays_.index_key),
                               weights.indexer.shares.to(arrays_.index_shares)};
  backend_->matmul(std::span(of_x).first(description_->latent->indexer ? 4 : 2), x, step.rows);
  if (!low) return;
  const int64_t rank = description_->latent->q_lora_rank;
  backend_->rms_norm(arrays_.query_low, weights.query_norm.floats(), description_->norm_epsilon, step.rows, rank,
                     arrays_.query_low);
  const MatmulTarget of_low[] = {query, weights.indexer.query.to(arrays_.index_query)};
  backend_->matmul(std::span(of_low).first(description_->latent->indexer ? 2 : 1), arrays_.query_low, step.rows);
}

// The latent part is normalised, the rest turns.
void LatentAttention::store_row(const LatentWeights& weights, const LatentStep& step) const {
  const MlaConfig& latent = *description_->latent;
  const int32_t dim = latent.row_dim();
  backend_->copy_columns(arrays_.row, dim, arrays_.row_rank, latent.rank, step.rows, latent.rank);
  backend_->rms_norm(arrays_.row_rank, weights.row_norm.floats(), description_->norm_epsilon, step.rows, latent.rank,
                     arrays_.row_rank);
  backend_->copy_columns(arrays_.row_rank, latent.rank, arrays_.row, dim, step.rows, latent.rank);
  backend_->rope(description_->ropes[0].style, step.rope_table, latent.rope, arrays_.row + latent.rank, step.rows, 1,
                 dim);
  backend_->latent()->store_rows(step.kv, step.slices, arrays_.row);
}

// Its rope turns other pairs than that of attention: halves of the first elements.
void LatentAttention::choose(const LatentWeights& weights, const LatentStep& step) const {
  const MlaConfig& latent = *description_->latent;
  const IndexerConfig& indexer = *latent.indexer;
  backend_->layer_norm(arrays_.index_key, weights.indexer.key_norm.floats(), weights.indexer.key_norm_bias.floats(),
                       indexer.norm_epsilon, step.rows, indexer.key_dim, arrays_.index_key);
  backend_->rope(RopeStyle::kNeoX, step.rope_table, latent.rope, arrays_.index_key, step.rows, 1, indexer.key_dim);
  backend_->rope(RopeStyle::kNeoX, step.rope_table, latent.rope, arrays_.index_query, step.rows, indexer.heads,
                 indexer.key_dim);
  backend_->latent()->store_rows(step.index_keys, step.slices, arrays_.index_key);
  backend_->latent()->select_topk({.heads = indexer.heads, .most = indexer.most}, step.index_keys, step.slices,
                                  arrays_.index_query, arrays_.index_shares, arrays_.chosen);
}

void LatentAttention::make_queries(const LatentWeights& weights, const LatentStep& step) const {
  const MlaConfig& latent = *description_->latent;
  const int32_t heads = description_->heads;
  const int64_t queries = int64_t{step.rows} * heads;
  const int32_t from = latent.query_dim(), to = latent.row_dim();
  backend_->copy_columns(arrays_.query, from, arrays_.query_nope, latent.nope, queries, latent.nope);
  const MatmulTarget key[] = {weights.key.to(arrays_.q_lora_rank)};
  backend_->grouped_matmul(key, arrays_.query_nope, step.rows, arrays_.heads, heads, true);
  backend_->rope(description_->ropes[0].style, step.rope_table, latent.rope, arrays_.query + latent.nope, step.rows,
                 heads, from);
  backend_->copy_columns(arrays_.q_lora_rank, latent.rank, arrays_.query_rows, to, queries, latent.rank);
  backend_->copy_columns(arrays_.query + latent.nope, from, arrays_.query_rows + latent.rank, to, queries, latent.rope);
  if (!step.temperatures.empty()) {
    backend_->scale_rows(arrays_.query_rows, step.temperatures, int64_t{heads} * to);
  }
}

}  // namespace cairn
