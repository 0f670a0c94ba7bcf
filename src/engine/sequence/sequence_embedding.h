/// How a sequence whose text is embedded, not continued, becomes a vector.
#pragma once

#include <span>
#include <vector>

#include "engine/request.h"
#include "model/pooling.h"
#include "model/runner.h"

namespace cairn {

/// Thread: the engine's.
class SequenceEmbedding {
 public:
  explicit SequenceEmbedding(const EmbeddingOptions& options);

  /// Which hidden rows a step must keep, depending on whether its rows reach the end of the text.
  LogitsWanted wanted(bool to_the_end) const;
  /// Takes the hidden rows of the next tokens; `at_begin`: of the text's first, also after a preemption.
  void add(std::span<const float> rows, bool at_begin, const Runner& runner);
  /// The result, once the rows of the whole text were added.
  std::vector<float> vector(const Runner& runner) const;

 private:
  bool ranks_;       // the result is the score of the last row
  Pooling pooling_;  // not kRank
  PoolingAccumulator pooled_;
};

}  // namespace cairn
