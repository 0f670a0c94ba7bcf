/// How a sequence whose text is embedded, not continued, becomes a vector.
#pragma once

#include <span>
#include <vector>

#include "engine/request.h"
#include "model/pooling.h"
#include "model/runner.h"

namespace cairn::engine {

/// Thread: the engine's.
class SequenceEmbedding {
 public:
  explicit SequenceEmbedding(const EmbeddingOptions& options);

  /// Which hidden rows a step must keep, depending on whether its rows reach the end of the text.
  model::LogitsWanted wanted(bool to_the_end) const;
  /// Takes the hidden rows of the next tokens; `at_begin`: of the text's first, also after a preemption.
  void add(std::span<const float> rows, bool at_begin, const model::Runner& runner);
  /// The result, once the rows of the whole text were added.
  std::vector<float> vector(const model::Runner& runner) const;

 private:
  bool ranks_;              // the result is the score of the last row
  model::Pooling pooling_;  // not kRank
  model::PoolingAccumulator pooled_;
};

}  // namespace cairn::engine
