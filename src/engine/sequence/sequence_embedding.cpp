#include "engine/sequence/sequence_embedding.h"

namespace cairn {

SequenceEmbedding::SequenceEmbedding(const EmbeddingOptions& options)
    : ranks_(options.pooling == Pooling::kRank),
      pooling_(ranks_ ? Pooling::kLast : options.pooling),
      pooled_(pooling_, 0) {}

LogitsWanted SequenceEmbedding::wanted(bool to_the_end) const {
  if (pooling_ == Pooling::kMean || pooling_ == Pooling::kCls) return LogitsWanted::kHiddenAll;
  return to_the_end ? LogitsWanted::kHiddenLast : LogitsWanted::kNone;
}

void SequenceEmbedding::add(std::span<const float> rows, bool at_begin, const Runner& runner) {
  if (at_begin) pooled_ = PoolingAccumulator(pooling_, runner.embedding().dimensions);
  pooled_.add(rows);
}

std::vector<float> SequenceEmbedding::vector(const Runner& runner) const {
  std::vector<float> pooled = pooled_.vector();
  if (ranks_) return {runner.rank(pooled)};
  return pooled;
}

}  // namespace cairn
