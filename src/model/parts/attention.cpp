#include "model/parts/attention.h"

#include <vector>

#include "kernels/backend.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

Result<HeadNorm> HeadNorm::load(WeightLoader& loader, const std::string& name, int64_t heads, int64_t dim, QkNorm kind,
                                float epsilon) {
  HeadNorm made;
  made.kind_ = kind;
  made.heads_ = heads;
  made.dim_ = dim;
  made.epsilon_ = epsilon;
  if (kind == QkNorm::kNone) return made;
  if (kind == QkNorm::kLayerNormPerHead) {
    CAIRN_TRY(made.weights_, loader.table(name + ".weight", heads, dim));
  } else if (kind == QkNorm::kPerHeadUnweighted) {
    made.norm_ = Norm(kernels::Buffer(), dim, epsilon);
  } else {
    const int64_t width = kind == QkNorm::kAllHeads ? heads * dim : dim;
    CAIRN_TRY(made.norm_, Norm::load(loader, name, width, {.epsilon = epsilon}));
  }
  return made;
}

void HeadNorm::run(kernels::RowOperations& operations, float* x, int64_t rows) const {
  switch (kind_) {
    case QkNorm::kNone:
      break;
    case QkNorm::kPerHead:
    case QkNorm::kPerHeadUnweighted:
      norm_.run(operations, x, rows * heads_, x);
      break;
    case QkNorm::kAllHeads:
      norm_.run(operations, x, rows, x);
      break;
    case QkNorm::kLayerNormPerHead:
      operations.layer_norm_heads(x, weights_.floats(), epsilon_, rows, heads_, dim_, x);
      break;
  }
}

void Attention::add_work(int64_t rows, int32_t heads, int32_t head_dim, int32_t tokens,
                         kernels::WorkspaceSizes& sizes) {
  sizes.attention_rows = rows;
  sizes.attention_heads = heads;
  sizes.head_dim = head_dim;
  sizes.attention_tokens = tokens;
}

Result<std::unique_ptr<Attention>> Attention::load(WeightLoader& loader, const std::string& prefix, int64_t embedding,
                                                   const AttentionConfig& config) {
  auto made = std::make_unique<Attention>();
  made->config_ = config;
  CAIRN_TRY(made->query_norm_, HeadNorm::load(loader, prefix + "attn_q_norm", config.heads, config.key_dim,
                                              config.qk_norm, config.norm_epsilon));
  if (config.own_kv) {
    CAIRN_TRY(made->key_norm_, HeadNorm::load(loader, prefix + "attn_k_norm", config.kv_heads, config.key_dim,
                                              config.qk_norm, config.norm_epsilon));
  }
  CAIRN_TRY_VOID(made->load_projections(loader, prefix, embedding));
  if (config.sinks) {
    CAIRN_TRY(made->sinks_, loader.vector(prefix + "attn_sinks.weight", config.heads));
  }
  CAIRN_TRY(made->output_, loader.linear(prefix + "attn_output", embedding, int64_t{config.heads} * config.value_dim));
  return made;
}

Result<void> Attention::load_projections(WeightLoader& loader, const std::string& prefix, int64_t embedding) {
  const int64_t query = int64_t{config_.heads} * config_.key_dim;
  const int64_t key = int64_t{config_.kv_heads} * config_.key_dim;
  const int64_t value = int64_t{config_.kv_heads} * config_.value_dim;
  if (const std::string fused = prefix + "attn_qkv"; loader.has(fused + ".weight")) {
    const int64_t rows = query + key + value;
    CAIRN_TRY(query_, loader.linear_rows(fused, rows, embedding, {0, query}));
    CAIRN_TRY(key_, loader.linear_rows(fused, rows, embedding, {query, key}));
    CAIRN_TRY(value_, loader.linear_rows(fused, rows, embedding, {query + key, value}));
    return {};
  }
  if (config_.gated) {
    CAIRN_TRY_VOID(load_gated_query(loader, prefix + "attn_q", embedding));
  } else {
    CAIRN_TRY(query_, loader.linear(prefix + "attn_q", query, embedding));
  }
  if (!config_.own_kv) return {};
  CAIRN_TRY(key_, loader.linear(prefix + "attn_k", key, embedding));
  if (config_.value_is_key) return {};
  CAIRN_TRY(value_, loader.linear(prefix + "attn_v", value, embedding));
  return {};
}

Result<void> Attention::load_gated_query(WeightLoader& loader, const std::string& name, int64_t embedding) {
  const int64_t dim = config_.key_dim;
  const int64_t rows = 2 * dim * config_.heads;
  std::vector<RowRange> queries, gates;
  for (int64_t begin = 0; begin < rows; begin += 2 * dim) {
    queries.push_back({begin, dim});
    gates.push_back({begin + dim, dim});
  }
  CAIRN_TRY(query_, loader.linear_picked(name, rows, embedding, queries));
  CAIRN_TRY(gate_, loader.linear_picked(name, rows, embedding, gates));
  return {};
}

void Attention::run(kernels::Backend& backend, const AttentionActivations& activations, const AttentionStep& step,
                    const float* x, float* out) const {
  project(backend, activations, step, x);
  read(backend, activations, step);
  write(backend, activations.attended, step.rows, out);
}

void Attention::project(kernels::Backend& backend, const AttentionActivations& activations, const AttentionStep& step,
                        const float* x) const {
  const kernels::MatmulTarget projections[] = {query_.to(activations.query), key_.to(activations.key),
                                               value_.to(activations.value), gate_.to(activations.gate)};
  const size_t products = !config_.own_kv ? 1 : config_.value_is_key ? 2 : config_.gated ? 4 : 3;
  backend.matmul(std::span(projections).first(products), x, step.rows);
  finish(backend, activations, step, true);
}

void Attention::project_keys(kernels::Backend& backend, const AttentionActivations& activations,
                             const AttentionStep& step, const float* x) const {
  const kernels::MatmulTarget projections[] = {key_.to(activations.key), value_.to(activations.value)};
  backend.matmul(std::span(projections).first(config_.value_is_key ? 1 : 2), x, step.rows);
  finish(backend, activations, step, false);
}

void Attention::finish(kernels::Backend& backend, const AttentionActivations& activations, const AttentionStep& step,
                       bool queries) const {
  const bool keys = config_.own_kv;
  if (keys && config_.value_norm) {
    const float* values = config_.value_is_key ? activations.key : activations.value;
    backend.rms_norm(values, nullptr, config_.norm_epsilon, int64_t{step.rows} * config_.kv_heads, config_.value_dim,
                     activations.value);
  }
  const auto normalise = [&] {
    if (queries) query_norm_.run(backend, activations.query, step.rows);
    if (keys) key_norm_.run(backend, activations.key, step.rows);
  };
  if (!config_.qk_norm_after_rope) normalise();
  if (step.rope != nullptr) {
    const kernels::RopeHeads rotated[] = {{activations.query, config_.heads}, {activations.key, config_.kv_heads}};
    const size_t first = queries ? 0 : 1, count = (queries ? 1 : 0) + (keys ? 1 : 0);
    backend.rope(step.rope->style, step.rope_table, step.rope->dims, std::span(rotated).subspan(first, count),
                 step.rows, config_.key_dim);
  }
  if (config_.qk_norm_after_rope) normalise();
  if (queries && !step.temperatures.empty()) {
    backend.scale_rows(activations.query, step.temperatures, int64_t{config_.heads} * config_.key_dim);
  }
  if (keys) backend.store_kv(step.kv, step.slices, activations.key, activations.value);
}

void Attention::read(kernels::Backend& backend, const AttentionActivations& activations,
                     const AttentionStep& step) const {
  kernels::AttentionParams params;
  params.heads = config_.heads;
  params.scale = config_.scale;
  params.soft_cap = config_.soft_cap;
  params.window = config_.window;
  params.chunked = config_.chunked;
  params.sinks = sinks_.floats();
  params.causal = config_.causal;
  params.slopes = config_.slopes;
  backend.attention(params, step.kv, step.slices, activations.query, activations.attended);
  if (config_.gated) {
    backend.gate(kernels::Activation::kSigmoid, activations.gate, activations.attended, step.rows,
                 int64_t{config_.heads} * config_.value_dim, activations.attended);
  }
}

void Attention::write(kernels::Backend& backend, const float* attended, int32_t rows, float* out) const {
  const kernels::MatmulTarget output[] = {output_.to(out)};
  backend.matmul(output, attended, rows);
}

}  // namespace cairn::model
