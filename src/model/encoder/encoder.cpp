#include "model/encoder/encoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace cairn {

void Encoder::Activations::add_to(ActivationArena& arena, const EncoderConfig& config, int32_t chunk_rows) {
  const int64_t rows = batch_tokens_max(config);
  const int64_t width = config.embedding;
  arena.add(hidden, rows * width);
  arena.add(query, rows * width);
  arena.add(attended, rows * width);
  arena.add(rope, config.rope ? rows * config.rope->dims : 0);
  arena.add(kv, int64_t{pages_max(config)} * kPageTokens * 2 * width);
  arena.add(key, chunk_rows * width);
  arena.add(value, chunk_rows * width);
  arena.add(block, chunk_rows * width);
  arena.add(gate, chunk_rows * config.feed_forward);
  arena.add(up, chunk_rows * config.feed_forward);
}

WorkspaceSizes Encoder::work_sizes(const EncoderConfig& config, int32_t chunk_rows) {
  WorkspaceSizes sizes;
  // Heads that rank read a row of each text.
  sizes.inputs.push_back({std::max(chunk_rows, kTextsMax), std::max(config.embedding, config.feed_forward)});
  sizes.attention_rows = chunk_rows;
  sizes.attention_heads = config.heads;
  sizes.head_dim = config.head_dim;
  sizes.attention_tokens = batch_tokens_max(config);
  return sizes;
}

int64_t Encoder::bytes(const EncoderConfig& config, const Backend& backend, int32_t chunk_rows) {
  ActivationArena arena;
  Activations activations;
  activations.add_to(arena, config, chunk_rows);
  // Hidden rows are kept a second time in host memory.
  const int64_t host = batch_tokens_max(config) * config.embedding * static_cast<int64_t>(sizeof(float));
  return arena.bytes() + host + backend.workspace_bytes(work_sizes(config, chunk_rows));
}

int32_t Encoder::batch_tokens_max(const EncoderConfig& config) { return std::max(config.context_tokens, kRowsMin); }

// The last page of a text is its own.
int32_t Encoder::pages_max(const EncoderConfig& config) { return pages_for(batch_tokens_max(config)) + kTextsMax; }

Encoder::Encoder(EncoderConfig config, EncoderWeights weights, Backend& backend, int32_t chunk_rows)
    : description_(std::move(config)),
      weights_(std::move(weights)),
      backend_(backend),
      chunk_rows_(chunk_rows),
      ability_{.dimensions = static_cast<int32_t>(description_.embedding),
               .pooling = description_.pooling,
               .ranks = description_.labels == 1} {}

Result<std::unique_ptr<Embedder>> Encoder::create(EncoderConfig config, EncoderWeights weights, Backend& backend,
                                                  int32_t chunk_rows) {
  std::unique_ptr<Encoder> encoder(new Encoder(std::move(config), std::move(weights), backend, chunk_rows));
  CAIRN_TRY_VOID(encoder->allocate());
  return encoder;
}

Result<void> Encoder::allocate() {
  activations_.add_to(arena_, description_, chunk_rows_);
  CAIRN_TRY_VOID(arena_.allocate(backend_));
  CAIRN_TRY_VOID(backend_.reserve(work_sizes(description_, chunk_rows_)));
  kv_view_.base = reinterpret_cast<std::byte*>(activations_.kv);
  kv_view_.page_stride = kPageTokens * 2 * description_.embedding * static_cast<int64_t>(sizeof(float));
  kv_view_.kv_heads = description_.heads;
  kv_view_.key_dim = description_.head_dim;
  kv_view_.value_dim = description_.head_dim;
  host_.resize(batch_tokens_max() * description_.embedding);
  for (int32_t page = 0; page < pages_max(description_); ++page) pages_.push_back(PageId{page});
  const int32_t rows = batch_tokens_max();
  tokens_.reserve(rows);
  position_ids_.reserve(rows);
  types_.reserve(rows);
  positions_.reserve(rows);
  slices_.reserve(kTextsMax);
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
  int32_t page = 0;
  for (const EmbedText& text : texts) {
    const auto rows = static_cast<int32_t>(text.tokens.size());
    CAIRN_CHECK(rows > 0 && rows <= description_.context_tokens);
    CAIRN_CHECK(rows <= batch_tokens_max() - static_cast<int32_t>(tokens_.size()));
    const int32_t second_begin = description_.token_types > 1 ? text.second_begin : kNoSecond;
    const int32_t pages = pages_for(rows);
    slices_.push_back({static_cast<int32_t>(tokens_.size()), rows, 0, std::span(pages_).subspan(page, pages)});
    page += pages;
    for (int32_t row = 0; row < rows; ++row) {
      const TokenId token = text.tokens[row];
      CAIRN_CHECK(index(token) >= 0 && index(token) < description_.vocabulary);
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
    const size_t first = chunk_slices_.size();
    for (; text < slices_.size(); ++text) {
      const AttentionSlice& whole = slices_[text];
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
    chunks_.push_back({begin, end - begin, std::span(chunk_slices_).subspan(first)});
  }
}

Result<void> Encoder::embed(std::span<const EmbedText> texts, Pooling pooling, std::span<float> out) {
  plan(texts);
  if (description_.rope) {
    backend_.rope_table(positions_, description_.rope->frequencies, description_.rope->magnitude, activations_.rope);
  }
  for (const Chunk& chunk : chunks_) embed_tokens(chunk);
  for (const EncoderLayerWeights& layer : weights_.layers) {
    attention(layer);
    for (const Chunk& chunk : chunks_) finish_layer(layer, chunk);
  }
  if (pooling == Pooling::kRank) {
    rank(out);
  } else {
    pool(pooling, out);
  }
  return backend_.finish();
}

void Encoder::norm(const LayerNorm& norm, float* x, int32_t rows) {
  backend_.layer_norm(x, norm.weight.floats(), norm.bias.floats(), description_.norm_epsilon, rows,
                      description_.embedding, x);
}

void Encoder::embed_tokens(const Chunk& chunk) {
  float* hidden = rows_at(activations_.hidden, chunk.begin);
  const auto of_chunk = [&](const std::vector<TokenId>& ids) {
    return std::span(ids).subspan(chunk.begin, chunk.rows);
  };
  backend_.embed(weights_.tokens, of_chunk(tokens_), 1, hidden);
  const int64_t elements = chunk.rows * description_.embedding;
  if (description_.token_types > 0) {
    backend_.embed(weights_.types, of_chunk(types_), 1, activations_.block);
    backend_.add(hidden, activations_.block, elements, 1);
  }
  if (description_.learned_positions) {
    backend_.embed(weights_.positions, of_chunk(position_ids_), 1, activations_.block);
    backend_.add(hidden, activations_.block, elements, 1);
  }
  norm(weights_.embedding_norm, hidden, chunk.rows);
}

void Encoder::attention(const EncoderLayerWeights& weights) {
  for (const Chunk& chunk : chunks_) query_key_value(weights, chunk);
  AttentionParams params;
  params.heads = description_.heads;
  params.scale = 1 / std::sqrt(static_cast<float>(description_.head_dim));
  params.causal = false;
  params.slopes = weights_.slopes.floats();
  backend_.attention(params, kv_view_, slices_, activations_.query, activations_.attended);
}

void Encoder::query_key_value(const EncoderLayerWeights& weights, const Chunk& chunk) {
  float* query = rows_at(activations_.query, chunk.begin);
  const MatmulTarget projections[] = {weights.query.to(query), weights.key.to(activations_.key),
                                      weights.value.to(activations_.value)};
  backend_.matmul(projections, rows_at(activations_.hidden, chunk.begin), chunk.rows);
  if (description_.rope) {
    const RopeConfig& how = *description_.rope;
    const float* table = activations_.rope + int64_t{chunk.begin} * how.dims;
    const RopeHeads rotated[] = {{query, description_.heads}, {activations_.key, description_.heads}};
    backend_.rope(how.style, table, how.dims, rotated, chunk.rows, description_.head_dim);
  }
  backend_.store_kv(kv_view_, chunk.slices, activations_.key, activations_.value);
}

// What follows the attention of a layer.
void Encoder::finish_layer(const EncoderLayerWeights& weights, const Chunk& chunk) {
  float* hidden = rows_at(activations_.hidden, chunk.begin);
  float* block = activations_.block;
  const int64_t elements = chunk.rows * description_.embedding;
  const MatmulTarget output[] = {weights.attention_output.to(block)};
  backend_.matmul(output, rows_at(activations_.attended, chunk.begin), chunk.rows);
  backend_.add(hidden, block, elements, 1);
  norm(weights.attention_norm, hidden, chunk.rows);

  float* up = activations_.up;
  const int64_t inner = description_.feed_forward;
  if (description_.gated) {
    const MatmulTarget in[] = {weights.gate.to(activations_.gate), weights.up.to(up)};
    backend_.matmul(in, hidden, chunk.rows);
    backend_.gate(description_.activation, activations_.gate, up, chunk.rows, inner, up);
  } else {
    const MatmulTarget in[] = {weights.up.to(up)};
    backend_.matmul(in, hidden, chunk.rows);
    backend_.gate(description_.activation, up, nullptr, chunk.rows, inner, up);
  }
  const MatmulTarget down[] = {weights.down.to(block)};
  backend_.matmul(down, up, chunk.rows);
  backend_.add(hidden, block, elements, 1);
  norm(weights.output_norm, hidden, chunk.rows);
}

void Encoder::pool(Pooling pooling, std::span<float> out) {
  const int64_t width = description_.embedding;
  const int64_t values = static_cast<int64_t>(tokens_.size()) * width;
  backend_.read(activations_.hidden, values * static_cast<int64_t>(sizeof(float)), host_.data());
  const auto rows = std::span<const float>(host_).first(values);
  if (pooling == Pooling::kNone) {
    CAIRN_CHECK(out.size() == rows.size());
    std::ranges::copy(rows, out.begin());
    return;
  }
  CAIRN_CHECK(std::ssize(out) == std::ssize(slices_) * width);
  for (size_t text = 0; text < slices_.size(); ++text) {
    const AttentionSlice& slice = slices_[text];
    const auto of_text = rows.subspan(slice.row_begin * width, slice.rows * width);
    PoolingAccumulator rows_of_text(pooling, width);
    rows_of_text.add(of_text);
    std::ranges::copy(rows_of_text.vector(), out.begin() + static_cast<int64_t>(text) * width);
  }
}

void Encoder::rank(std::span<float> out) {
  CAIRN_CHECK(ability_.ranks && out.size() == slices_.size());
  std::vector<int32_t> firsts;
  for (const AttentionSlice& slice : slices_) firsts.push_back(slice.row_begin);
  const auto texts = static_cast<int32_t>(firsts.size());
  float* rows = activations_.block;
  backend_.gather_rows(activations_.hidden, firsts, description_.embedding, rows);
  if (description_.label_dense) {
    const MatmulTarget dense[] = {weights_.label_dense.to(activations_.key)};
    backend_.matmul(dense, rows, texts);
    rows = activations_.key;
    if (description_.label_relu) {
      backend_.gate(Activation::kRelu, rows, nullptr, texts, description_.embedding, rows);
    } else {
      backend_.scale_and_softcap(rows, texts * description_.embedding, 1, 1);  // tanh
    }
  }
  const MatmulTarget labels[] = {weights_.labels.to(activations_.value)};
  backend_.matmul(labels, rows, texts);
  backend_.read(activations_.value, static_cast<int64_t>(out.size_bytes()), out.data());
}

}  // namespace cairn
