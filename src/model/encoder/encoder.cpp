#include "model/encoder/encoder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/backend.h"

namespace cairn::model {

void Encoder::Activations::add_to(ActivationArena& arena, const EncoderConfig& config, int32_t chunk_rows) {
  const int64_t rows = batch_tokens_max(config);
  const int64_t width = config.embedding;
  const MoeConfig moe = config.experts.value_or(MoeConfig{});
  const int64_t dense = config.feed_forward.length;
  arena.add(hidden, rows * width);
  arena.add(attention.query, rows * config.query_width());
  arena.add(attention.attended, rows * config.query_width());
  ropes.add_to(arena, config.ropes, rows);
  arena.add(kv, int64_t{pages_max(config)} * kernels::kPageTokens * 2 * config.kv_width());
  arena.add(attention.key, chunk_rows * config.kv_width());
  arena.add(attention.value, chunk_rows * config.kv_width());
  arena.add(normed, config.norms == NormPlacement::kPostLn ? 0 : chunk_rows * width);
  arena.add(block, chunk_rows * width);
  feed_forward.add_to(arena, chunk_rows, config.feed_forward.gated ? dense : 0, std::max(dense, moe.inner()));
  experts.add_to(arena, moe, chunk_rows, width);
  arena.add(pooled, kTextsMax * pooled_width(config));
  arena.add(pooled_out, kTextsMax * pooled_width(config));
}

int64_t Encoder::pooled_width(const EncoderConfig& config) {
  const int64_t scores = config.labels == 1 ? 1 : 0;  // heads of several outputs do not rank
  const int64_t most = std::max({config.dense_2, config.dense_3, scores});
  return most == 0 ? 0 : std::max(most, config.embedding);
}

kernels::WorkspaceSizes Encoder::work_sizes(const EncoderConfig& config, int32_t chunk_rows) {
  kernels::WorkspaceSizes sizes;
  sizes.inputs.push_back({chunk_rows, std::max(config.embedding, config.query_width())});
  FeedForward::add_work(chunk_rows, config.feed_forward.length, sizes);
  if (config.experts) Experts::add_work(*config.experts, chunk_rows, sizes);
  if (pooled_width(config) > 0) sizes.inputs.push_back({kTextsMax, pooled_width(config)});
  Attention::add_work(chunk_rows, config.heads, config.head_dim, batch_tokens_max(config), sizes);
  return sizes;
}

int64_t Encoder::bytes(const EncoderConfig& config, const kernels::Backend& backend, int32_t chunk_rows) {
  ActivationArena arena;
  Activations activations;
  activations.add_to(arena, config, chunk_rows);
  // Hidden rows are kept a second time in host memory.
  int64_t host = batch_tokens_max(config) * config.embedding;
  if (pooled_width(config) > 0) host += kTextsMax * config.embedding;
  return arena.bytes() + host * static_cast<int64_t>(sizeof(float)) +
         backend.workspace_bytes(work_sizes(config, chunk_rows));
}

int32_t Encoder::batch_tokens_max(const EncoderConfig& config) { return std::max(config.context_tokens, kRowsMin); }

// The last page of a text is its own.
int32_t Encoder::pages_max(const EncoderConfig& config) {
  return cache::pages_for(batch_tokens_max(config)) + kTextsMax;
}

Encoder::Encoder(EncoderConfig config, EncoderWeights weights, kernels::Backend& backend, int32_t chunk_rows)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      backend_(backend),
      chunk_rows_(chunk_rows),
      ability_{.dimensions = static_cast<int32_t>(config_.dimensions()),
               .pooling = config_.pooling,
               .ranks = config_.labels == 1} {}

Result<std::unique_ptr<Embedder>> Encoder::create(EncoderConfig config, EncoderWeights weights,
                                                  kernels::Backend& backend, int32_t chunk_rows) {
  std::unique_ptr<Encoder> encoder(new Encoder(std::move(config), std::move(weights), backend, chunk_rows));
  CAIRN_TRY_VOID(encoder->allocate());
  return encoder;
}

Result<void> Encoder::allocate() {
  activations_.add_to(arena_, config_, chunk_rows_);
  CAIRN_TRY_VOID(arena_.allocate(backend_));
  CAIRN_TRY_VOID(backend_.reserve(work_sizes(config_, chunk_rows_)));
  kv_view_.base = reinterpret_cast<std::byte*>(activations_.kv);
  kv_view_.page_stride = kernels::kPageTokens * 2 * config_.kv_width() * static_cast<int64_t>(sizeof(float));
  kv_view_.kv_heads = config_.kv_heads;
  kv_view_.key_dim = config_.head_dim;
  kv_view_.value_dim = config_.head_dim;
  host_.resize(batch_tokens_max() * config_.embedding);
  if (pooled_width(config_) > 0) pooled_.resize(kTextsMax * config_.embedding);
  for (int32_t page = 0; page < pages_max(config_); ++page) pages_.push_back(PageId{page});
  const int32_t rows = batch_tokens_max();
  tokens_.reserve(rows);
  position_ids_.reserve(rows);
  types_.reserve(rows);
  positions_.reserve(rows);
  slices_.reserve(kTextsMax);
  adapter_scales_.reserve(kTextsMax);
  chunks_.reserve(rows / chunk_rows_ + 1);
  chunk_slices_.reserve(kTextsMax + chunks_.capacity());
  return {};
}

void Encoder::plan(std::span<const EmbedText> texts) {
  CAIRN_CHECK(!texts.empty() && texts.size() <= static_cast<size_t>(kTextsMax));
  tokens_.clear();
  position_ids_.clear();
  types_.clear();
  positions_.clear();
  slices_.clear();
  adapter_scales_.clear();
  int32_t page = 0;
  for (const EmbedText& text : texts) {
    const auto rows = static_cast<int32_t>(text.tokens.size());
    CAIRN_CHECK(rows > 0 && rows <= config_.context_tokens);
    CAIRN_CHECK(rows <= batch_tokens_max() - static_cast<int32_t>(tokens_.size()));
    const int32_t second_begin = config_.token_types > 1 ? text.second_begin : kNoSecond;
    const int32_t pages = cache::pages_for(rows);
    slices_.push_back({static_cast<int32_t>(tokens_.size()), rows, 0, std::span(pages_).subspan(page, pages)});
    adapter_scales_.push_back(text.adapter_scales);
    page += pages;
    for (int32_t row = 0; row < rows; ++row) {
      const TokenId token = text.tokens[row];
      CAIRN_CHECK(index(token) >= 0 && index(token) < config_.vocabulary);
      tokens_.push_back(token);
      positions_.push_back(row);
      position_ids_.push_back(TokenId{row});
      types_.push_back(TokenId{second_begin >= 0 && row >= second_begin ? 1 : 0});
    }
  }
  cut_into_chunks();
}

void Encoder::cut_into_chunks() {
  chunks_.clear();
  chunk_slices_.clear();
  const auto rows = static_cast<int32_t>(tokens_.size());
  size_t text = 0;
  for (int32_t begin = 0; begin < rows; begin += chunk_rows_) {
    const int32_t end = std::min(begin + chunk_rows_, rows);
    const size_t first = chunk_slices_.size(), first_text = text;
    for (; text < slices_.size(); ++text) {
      const kernels::AttentionSlice& whole = slices_[text];
      const int32_t from = std::max(begin, whole.row_begin);
      const int32_t to = std::min(end, whole.row_begin + whole.rows);
      chunk_slices_.push_back({from - begin, to - from, from - whole.row_begin, whole.pages});
      if (whole.row_begin + whole.rows > end) break;
      if (whole.row_begin + whole.rows == end) {
        ++text;
        break;
      }
    }
    // chunk_slices_ never grows beyond what was reserved.
    chunks_.push_back({begin, end - begin, first_text, std::span(chunk_slices_).subspan(first)});
  }
}

Result<void> Encoder::embed(std::span<const EmbedText> texts, Pooling pooling, std::span<float> out) {
  plan(texts);
  activations_.ropes.compute(backend_, positions_);
  for (const Chunk& chunk : chunks_) embed_tokens(chunk);
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    const EncoderLayerConfig& layer = config_.layers[i];
    attention(weights_.layers[i], layer);
    for (const Chunk& chunk : chunks_) finish_layer(weights_.layers[i], layer, chunk);
  }
  for (const Chunk& chunk : chunks_) finish(chunk);
  if (pooling == Pooling::kRank) {
    rank(out);
  } else {
    embed_texts(pooling, out);
  }
  return backend_.finish();
}

void Encoder::begin_products(const Chunk& chunk) {
  kernels::LowRankRows* const adapters = weights_.adapter_rows.get();
  if (adapters == nullptr) return;
  adapters->begin();
  for (size_t i = 0; i < chunk.slices.size(); ++i) {
    adapters->add(adapter_scales_[chunk.first_text + i], chunk.slices[i].rows);
  }
}

void Encoder::embed_tokens(const Chunk& chunk) {
  begin_products(chunk);
  float* hidden = hidden_at(chunk);
  const auto of_chunk = [&](const std::vector<TokenId>& ids) {
    return std::span(ids).subspan(chunk.begin, chunk.rows);
  };
  weights_.tokens.look_up(backend_, of_chunk(tokens_), config_.embedding_scale, hidden);
  const int64_t elements = chunk.rows * config_.embedding;
  if (config_.token_types > 0) {
    backend_.embed(weights_.types, of_chunk(types_), 1, activations_.block);
    backend_.add(hidden, activations_.block, elements, 1);
  }
  if (config_.learned_positions) {
    backend_.embed(weights_.positions, of_chunk(position_ids_), 1, activations_.block);
    backend_.add(hidden, activations_.block, elements, 1);
  }
  if (config_.embedding_norm) weights_.embedding_norm.run(backend_, hidden, chunk.rows, hidden);
}

const float* Encoder::input_of_block(const Norm& norm, const Chunk& chunk) {
  const float* hidden = hidden_at(chunk);
  if (!norm.exists()) return hidden;
  norm.run(backend_, hidden, chunk.rows, activations_.normed);
  return activations_.normed;
}

void Encoder::add_block(const Norm& norm, const Chunk& chunk) {
  float* hidden = hidden_at(chunk);
  float* block = activations_.block;
  if (config_.norms == NormPlacement::kSandwich) norm.run(backend_, block, chunk.rows, block);
  backend_.add(hidden, block, chunk.rows * config_.embedding, 1);
  if (config_.norms == NormPlacement::kPostLn) norm.run(backend_, hidden, chunk.rows, hidden);
}

void Encoder::attention(const EncoderLayerWeights& weights, const EncoderLayerConfig& layer) {
  for (const Chunk& chunk : chunks_) project(weights, layer, chunk);
  AttentionStep step;
  step.rows = static_cast<int32_t>(tokens_.size());
  step.slices = slices_;
  step.kv = kv_view_;
  weights.attention->read(backend_, activations_.attention, step);
}

void Encoder::project(const EncoderLayerWeights& weights, const EncoderLayerConfig& layer, const Chunk& chunk) {
  begin_products(chunk);
  AttentionActivations own = activations_.attention;
  own.query = heads_at(own.query, chunk);
  AttentionStep step;
  step.rows = chunk.rows;
  if (layer.rope != kNoRope) {
    step.rope = &config_.ropes[layer.rope];
    step.rope_table = activations_.ropes.table(layer.rope) + int64_t{chunk.begin} * step.rope->dims;
  }
  step.slices = chunk.slices;
  step.kv = kv_view_;
  weights.attention->project(backend_, own, step, input_of_block(weights.attention_pre_norm, chunk));
}

// What follows the attention of a layer.
void Encoder::finish_layer(const EncoderLayerWeights& weights, const EncoderLayerConfig& layer, const Chunk& chunk) {
  begin_products(chunk);
  weights.attention->write(backend_, heads_at(activations_.attention.attended, chunk), chunk.rows, activations_.block);
  add_block(weights.attention_post_norm, chunk);
  const float* x = input_of_block(weights.feed_forward_pre_norm, chunk);
  if (layer.routed) {
    weights.experts->route(backend_, activations_.experts, x, chunk.rows, {});
    weights.experts->run(backend_, activations_.feed_forward, activations_.experts, x, chunk.rows, activations_.block);
  } else {
    weights.dense->run(backend_, activations_.feed_forward, x, chunk.rows, activations_.block);
  }
  add_block(weights.feed_forward_post_norm, chunk);
}

// The norm after the last layer.
void Encoder::finish(const Chunk& chunk) {
  if (config_.norms == NormPlacement::kPostLn) return;
  weights_.output_norm.run(backend_, hidden_at(chunk), chunk.rows, hidden_at(chunk));
}

std::span<const float> Encoder::read_rows() {
  const int64_t values = static_cast<int64_t>(tokens_.size()) * config_.embedding;
  backend_.read(activations_.hidden, values * static_cast<int64_t>(sizeof(float)), host_.data());
  return std::span<const float>(host_).first(values);
}

void Encoder::pool(Pooling pooling, std::span<float> out) {
  // Products that follow are of pooled rows.
  if (kernels::LowRankRows* const adapters = weights_.adapter_rows.get()) {
    adapters->begin();
    for (const std::span<const float> scales : adapter_scales_) adapters->add(scales, 1);
  }
  const int64_t width = config_.embedding;
  const std::span<const float> rows = read_rows();
  for (size_t text = 0; text < slices_.size(); ++text) {
    const kernels::AttentionSlice& slice = slices_[text];
    PoolingAccumulator rows_of_text(pooling, width);
    rows_of_text.add(rows.subspan(slice.row_begin * width, slice.rows * width));
    std::ranges::copy(rows_of_text.vector(), out.begin() + static_cast<int64_t>(text) * width);
  }
}

void Encoder::embed_texts(Pooling pooling, std::span<float> out) {
  if (pooling == Pooling::kNone) {
    const std::span<const float> rows = read_rows();
    CAIRN_CHECK(out.size() == rows.size());
    std::ranges::copy(rows, out.begin());
    return;
  }
  CAIRN_CHECK(std::ssize(out) == std::ssize(slices_) * config_.dimensions());
  if (config_.dense_2 == 0 && config_.dense_3 == 0) return pool(pooling, out);
  const std::span<float> pooled = std::span(pooled_).first(slices_.size() * config_.embedding);
  pool(pooling, pooled);
  backend_.write(pooled.data(), static_cast<int64_t>(pooled.size_bytes()), activations_.pooled);
  if (config_.dense_2 > 0) map_pooled(weights_.dense_2);
  if (config_.dense_3 > 0) map_pooled(weights_.dense_3);
  backend_.read(activations_.pooled, static_cast<int64_t>(out.size_bytes()), out.data());
}

void Encoder::map_pooled(const Linear& layer) {
  const kernels::MatmulTarget out[] = {layer.to(activations_.pooled_out)};
  backend_.matmul(out, activations_.pooled, static_cast<int32_t>(slices_.size()));
  std::swap(activations_.pooled, activations_.pooled_out);
}

void Encoder::rank(std::span<float> out) {
  CAIRN_CHECK(ability_.ranks && out.size() == slices_.size());
  const int64_t width = config_.embedding;
  const std::span<float> pooled = std::span(pooled_).first(slices_.size() * width);
  pool(config_.label_pooling, pooled);
  backend_.write(pooled.data(), static_cast<int64_t>(pooled.size_bytes()), activations_.pooled);
  const auto texts = static_cast<int32_t>(slices_.size());
  if (config_.label_dense) {
    map_pooled(weights_.label_dense);
    float* rows = activations_.pooled;
    if (config_.label_activation) {
      backend_.gate(*config_.label_activation, rows, nullptr, texts, width, rows);
    } else {
      backend_.scale_and_softcap(rows, texts * width, 1, 1);  // tanh
    }
    if (config_.label_norm) weights_.label_norm.run(backend_, rows, texts, rows);
  }
  map_pooled(weights_.labels);
  backend_.read(activations_.pooled, static_cast<int64_t>(out.size_bytes()), out.data());
}

}  // namespace cairn::model
