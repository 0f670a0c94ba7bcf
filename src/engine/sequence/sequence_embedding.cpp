#include "engine/sequence/sequence_embedding.h"

namespace cairn::engine {

SequenceEmbedding::SequenceEmbedding(const EmbeddingOptions& options)
    : ranks_(options.pooling == model::Pooling::kRank),
      pooling_(ranks_ ? model::Pooling::kLast : options.pooling),
      pooled_(pooling_, 0) {}

model::LogitsWanted SequenceEmbedding::wanted(bool to_the_end) const {
  if (pooling_ == model::Pooling::kMean || pooling_ == model::Pooling::kCls) return model::LogitsWanted::kHiddenAll;
  return to_the_end ? model::LogitsWanted::kHiddenLast : model::LogitsWanted::kNone;
}

void SequenceEmbedding::add(std::span<const float> rows, bool at_begin, const model::Runner& runner) {
  if (at_begin) pooled_ = model::PoolingAccumulator(pooling_, runner.embedding().dimensions);
  pooled_.add(rows);
}

std::vector<float> SequenceEmbedding::vector(const model::Runner& runner) const {
  std::vector<float> pooled = pooled_.vector();
  if (ranks_) return {runner.rank(pooled)};
  return pooled;
}

}  // namespace cairn::engine
