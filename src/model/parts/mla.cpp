#include "model/parts/mla.h"

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "model/metadata_reader.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

Result<MlaConfig> read_mla(const MetadataReader& keys, int32_t rope_dims) {
  MlaConfig config;
  CAIRN_TRY(config.q_lora_rank, keys.integer_or("attention.q_lora_rank", 0, 0, kLowRankMax));
  CAIRN_TRY(config.rank, keys.integer("attention.kv_lora_rank", 1, kLowRankMax));
  const bool rows = keys.contains("attention.key_length_mla");
  const char* query_key = rows ? "attention.key_length_mla" : "attention.key_length";
  CAIRN_TRY(const int32_t query_dim, keys.integer(query_key, 1, kHeadDimMax));
  CAIRN_TRY(config.value_dim,
            keys.integer(rows ? "attention.value_length_mla" : "attention.value_length", 1, kHeadDimMax));
  config.rope = rope_dims;
  if (config.rope >= query_dim) {
    return fail(Code::kCorruptFile, "{} is {}, but {} is {}: some elements of a head must not turn",
                keys.full("rope.dimension_count"), config.rope, keys.full(query_key), query_dim);
  }
  config.nope = query_dim - config.rope;
  return config;
}

void MlaActivations::add_to(ActivationArena& arena, const MlaConfig& config, int64_t rows) {
  const IndexerConfig indexer = config.indexer.value_or(IndexerConfig{});
  const int64_t head_rows = rows * config.heads;
  arena.add(query_low, rows * config.q_lora_rank);
  arena.add(query, head_rows * config.query_dim());
  arena.add(query_nope, head_rows * config.nope);
  arena.add(heads_rank, head_rows * config.rank);
  arena.add(query_rows, head_rows * config.row_dim());
  arena.add(row, rows * config.row_dim());
  arena.add(row_rank, rows * config.rank);
  arena.add(heads, head_rows);
  arena.add(index_query, rows * indexer.heads * indexer.key_dim);
  arena.add(index_key, rows * indexer.key_dim);
  arena.add(index_shares, rows * indexer.heads);
  arena.add(chosen, rows * indexer.most);
  arena.add(attended, head_rows * config.value_dim);
}

void MlaActivations::write_heads(kernels::DeviceMemory& device, const MlaConfig& config, int64_t rows) const {
  std::vector<int32_t> numbers(static_cast<size_t>(rows * config.heads));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i % config.heads);
  device.write(numbers.data(), static_cast<int64_t>(numbers.size() * sizeof(int32_t)), heads);
}

void Mla::add_work(const MlaConfig& config, int64_t rows, int32_t context_tokens, kernels::WorkspaceSizes& sizes) {
  // Products per head have an input for each.
  const int64_t choices = rows * config.heads;
  sizes.inputs.push_back({choices, std::max(config.rank, config.nope)});
  sizes.inputs.push_back({rows, config.q_lora_rank});
  sizes.expert_choices = std::max(sizes.expert_choices, choices);
  sizes.experts = std::max<int64_t>(sizes.experts, config.heads);
  sizes.mla = {.rows = rows, .heads = config.heads, .context_tokens = context_tokens, .row_dim = config.row_dim()};
  if (!config.indexer) return;
  sizes.mla.choose_heads = config.indexer->heads;
  sizes.mla.choose_dim = config.indexer->key_dim;
}

Result<std::unique_ptr<Mla>> Mla::load(WeightLoader& loader, const std::string& prefix, int64_t embedding,
                                       const MlaConfig& config, bool chooses) {
  const int64_t query = int64_t{config.heads} * config.query_dim();
  const NormConfig norm{.epsilon = config.norm_epsilon};
  auto made = std::make_unique<Mla>();
  made->config_ = config;
  made->chooses_ = chooses;
  if (config.q_lora_rank > 0) {
    CAIRN_TRY(made->query_low_, loader.linear(prefix + "attn_q_a", config.q_lora_rank, embedding));
    CAIRN_TRY(made->query_norm_, Norm::load(loader, prefix + "attn_q_a_norm", config.q_lora_rank, norm));
    CAIRN_TRY(made->query_, loader.linear(prefix + "attn_q_b", query, config.q_lora_rank));
  } else {
    CAIRN_TRY(made->query_, loader.linear(prefix + "attn_q", query, embedding));
  }
  CAIRN_TRY(made->row_, loader.linear(prefix + "attn_kv_a_mqa", config.row_dim(), embedding));
  CAIRN_TRY(made->row_norm_, Norm::load(loader, prefix + "attn_kv_a_norm", config.rank, norm));
  const std::string joint = prefix + "attn_kv_b";
  if (loader.has(joint + ".weight") && !loader.has(prefix + "attn_k_b.weight")) {
    CAIRN_TRY_VOID(made->load_joint(loader, prefix));
  } else {
    CAIRN_TRY(made->key_, loader.heads(prefix + "attn_k_b", config.heads, config.rank, config.nope));
    CAIRN_TRY(made->value_, loader.heads(prefix + "attn_v_b", config.heads, config.value_dim, config.rank));
  }
  const JointShape shape{.heads = config.heads, .keys = config.nope, .values = config.value_dim, .cols = config.rank};
  CAIRN_TRY_VOID(loader.add_joint_adapters(joint, shape, made->key_, made->value_));
  if (chooses) {
    CAIRN_TRY_VOID(made->load_indexer(loader, prefix + "indexer.", embedding));
  }
  CAIRN_TRY(made->output_, loader.linear(prefix + "attn_output", embedding, int64_t{config.heads} * config.value_dim));
  return made;
}

// Rows of a head in attn_kv_b [heads * (nope + value_dim), rank]: those that make its keys, then those of its values.
Result<void> Mla::load_joint(WeightLoader& loader, const std::string& prefix) {
  const int64_t heads = config_.heads, nope = config_.nope, rank = config_.rank, dim = config_.value_dim;
  CAIRN_TRY(const std::vector<float> joint, loader.values(prefix + "attn_kv_b", heads * (nope + dim), rank));
  const auto head = [&](int64_t h) { return joint.data() + h * (nope + dim) * rank; };
  const auto fill_key = [&](std::span<float> key) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t r = 0; r < rank; ++r) {
        for (int64_t j = 0; j < nope; ++j) key[(h * rank + r) * nope + j] = head(h)[j * rank + r];
      }
    }
  };
  const auto fill_value = [&](std::span<float> value) {
    for (int64_t h = 0; h < heads; ++h) std::copy_n(head(h) + nope * rank, dim * rank, &value[h * dim * rank]);
  };
  CAIRN_TRY(key_, loader.made_heads(prefix + "attn_k_b", heads, rank, nope, fill_key));
  CAIRN_TRY(value_, loader.made_heads(prefix + "attn_v_b", heads, dim, rank, fill_value));
  return {};
}

Result<void> Mla::load_indexer(WeightLoader& loader, const std::string& prefix, int64_t embedding) {
  const IndexerConfig& indexer = *config_.indexer;
  CAIRN_TRY(indexer_.query,
            loader.linear(prefix + "attn_q_b", int64_t{indexer.heads} * indexer.key_dim, config_.q_lora_rank));
  CAIRN_TRY(indexer_.key, loader.linear(prefix + "attn_k", indexer.key_dim, embedding));
  const NormConfig norm{.kind = NormKind::kLayerNorm, .epsilon = indexer.norm_epsilon, .biases = true};
  CAIRN_TRY(indexer_.key_norm, Norm::load(loader, prefix + "k_norm", indexer.key_dim, norm));
  CAIRN_TRY(indexer_.shares, loader.linear(prefix + "proj", indexer.heads, embedding));
  return {};
}

void Mla::run(kernels::Backend& backend, const MlaActivations& activations, const MlaStep& step, const float* x,
              float* out) const {
  project(backend, activations, step, x);
  store_row(backend, activations, step);
  kernels::RowSource source{.kv = step.attention.kv, .slices = step.attention.slices};
  if (chooses_) choose(backend, activations, step);
  if (config_.indexer) {
    source.chosen = activations.chosen;
    source.chosen_max = config_.indexer->most;
  }
  make_queries(backend, activations, step);
  const kernels::RowAttentionParams params{.heads = config_.heads, .value_dim = config_.rank, .scale = config_.scale};
  backend.mla()->attend_rows(params, {&source, 1}, activations.query_rows, activations.heads_rank);
  const kernels::MatmulTarget value[] = {value_.to(activations.attended)};
  backend.grouped_matmul(value, activations.heads_rank, step.attention.rows, activations.heads, config_.heads, true);
  const kernels::MatmulTarget output[] = {output_.to(out)};
  backend.matmul(output, activations.attended, step.attention.rows);
}

// All that is made of x, and the query.
void Mla::project(kernels::Backend& backend, const MlaActivations& activations, const MlaStep& step,
                  const float* x) const {
  const bool low = config_.q_lora_rank > 0;
  const kernels::MatmulTarget query = query_.to(activations.query);
  const kernels::MatmulTarget of_x[] = {low ? query_low_.to(activations.query_low) : query, row_.to(activations.row),
                                        indexer_.key.to(activations.index_key),
                                        indexer_.shares.to(activations.index_shares)};
  backend.matmul(std::span(of_x).first(chooses_ ? 4 : 2), x, step.attention.rows);
  if (!low) return;
  query_norm_.run(backend, activations.query_low, step.attention.rows, activations.query_low);
  const kernels::MatmulTarget of_low[] = {query, indexer_.query.to(activations.index_query)};
  backend.matmul(std::span(of_low).first(chooses_ ? 2 : 1), activations.query_low, step.attention.rows);
}

// The latent part is normalised, the rest turns, if there is a rope.
void Mla::store_row(kernels::Backend& backend, const MlaActivations& activations, const MlaStep& step) const {
  const int32_t dim = config_.row_dim();
  backend.copy_columns(activations.row, dim, activations.row_rank, config_.rank, step.attention.rows, config_.rank);
  row_norm_.run(backend, activations.row_rank, step.attention.rows, activations.row_rank);
  backend.copy_columns(activations.row_rank, config_.rank, activations.row, dim, step.attention.rows, config_.rank);
  if (step.attention.rope != nullptr) {
    const kernels::RopeHeads rotated[] = {{activations.row + config_.rank, 1}};
    backend.rope(step.attention.rope->style, step.attention.rope_table, config_.rope, rotated, step.attention.rows,
                 dim);
  }
  backend.mla()->store_rows(step.attention.kv, step.attention.slices, activations.row);
}

// Its rope turns the first elements.
void Mla::choose(kernels::Backend& backend, const MlaActivations& activations, const MlaStep& step) const {
  const IndexerConfig& indexer = *config_.indexer;
  indexer_.key_norm.run(backend, activations.index_key, step.attention.rows, activations.index_key);
  const kernels::RopeHeads rotated[] = {{activations.index_query, indexer.heads}, {activations.index_key, 1}};
  backend.rope(indexer.rope_style, step.attention.rope_table, config_.rope, rotated, step.attention.rows,
               indexer.key_dim);
  backend.mla()->store_rows(step.index_keys, step.attention.slices, activations.index_key);
  backend.mla()->select_topk({.heads = indexer.heads, .most = indexer.most}, step.index_keys, step.attention.slices,
                             activations.index_query, activations.index_shares, activations.chosen);
}

void Mla::make_queries(kernels::Backend& backend, const MlaActivations& activations, const MlaStep& step) const {
  const int32_t heads = config_.heads;
  const int64_t queries = int64_t{step.attention.rows} * heads;
  const int32_t from = config_.query_dim(), to = config_.row_dim();
  backend.copy_columns(activations.query, from, activations.query_nope, config_.nope, queries, config_.nope);
  const kernels::MatmulTarget key[] = {key_.to(activations.heads_rank)};
  backend.grouped_matmul(key, activations.query_nope, step.attention.rows, activations.heads, heads, true);
  if (step.attention.rope != nullptr) {
    const kernels::RopeHeads rotated[] = {{activations.query + config_.nope, heads}};
    backend.rope(step.attention.rope->style, step.attention.rope_table, config_.rope, rotated, step.attention.rows,
                 from);
  }
  backend.copy_columns(activations.heads_rank, config_.rank, activations.query_rows, to, queries, config_.rank);
  backend.copy_columns(activations.query + config_.nope, from, activations.query_rows + config_.rank, to, queries,
                       config_.rope);
  if (!step.attention.temperatures.empty()) {
    backend.scale_rows(activations.query_rows, step.attention.temperatures, int64_t{heads} * to);
  }
}

}  // namespace cairn::model
