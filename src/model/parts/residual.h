/// The residual stream, a part of a model: what every block reads, and what its output is added to. It is one row of
/// each token, or several that blocks mix (parts/hyper_connections.h). Its config, its arrays in a step, and its run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/workspace_sizes.h"
#include "model/activation_arena.h"
#include "model/parts/hyper_connections.h"
#include "model/parts/norm.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

struct ResidualConfig {
  float scale = 1;          ///< of what attention and feed-forward add
  bool pre_norms = true;    ///< before attention and feed-forward
  bool post_norms = false;  ///< after them, before they are added
  /// Attention and feed-forward read the same residual stream: x += attention(norm(x)) + feed_forward(norm(x)). Without
  /// a norm of its own the feed-forward reads the row that attention reads.
  bool parallel = false;
  /// Several streams. There are no parallel blocks, scales and post-norms then.
  std::optional<HyperConnectionConfig> hyper_connections;

  /// Streams of a token.
  int32_t streams() const { return hyper_connections ? hyper_connections->streams : 1; }
  /// Elements of a token that a range of layers leaves for the next one.
  int64_t saved_elements(int64_t embedding) const {
    return hyper_connections ? hyper_connections->saved_elements() : embedding;
  }
};

/// Arrays of a step for R rows. Those that the kind of stream does not need have no elements.
struct ResidualActivations {
  float* hidden = nullptr;             ///< [R, embedding], one stream
  float* normed = nullptr;             ///< [R, embedding], what a block reads
  float* parallel = nullptr;           ///< [R, embedding], what the feed-forward beside attention reads
  float* block = nullptr;              ///< [R, embedding], what attention or feed-forward adds
  float* last = nullptr;               ///< [max(R, L), embedding] for L rows of logits: rows that go on to the head
  HyperConnectionActivations streams;  ///< in place of `hidden` and `last`

  void add_to(ActivationArena& arena, const ResidualConfig& config, int64_t embedding, int64_t rows,
              int64_t logit_rows);
};

/// The residual stream of the step in progress. What a block gives is added when the stream is next asked for, together
/// with the norm that reads it.
class Residual {
 public:
  /// Adds what it needs of the backend.
  static void add_work(const ResidualConfig& config, int64_t rows, kernels::WorkspaceSizes& sizes);
  /// The backend outlives this; with several streams it has HyperConnectionOperations.
  Residual(kernels::Backend& backend, const ResidualConfig& config, int64_t embedding);
  /// The arrays, once they are allocated, for steps of at most `rows`.
  void prepare(const ResidualActivations& activations, int64_t rows);

  /// A step begins. Returns where its first rows are to be written, [rows, embedding]; then come spread() and blocks.
  float* begin_step();
  /// The first rows become the stream, or every one of several.
  void spread(int32_t rows);
  /// The same for the other way to begin: rows that a range of layers before has saved.
  void load(std::span<const float> saved, int32_t rows);
  /// Reads rows into host memory once the backend finishes.
  void save(std::span<float> saved, int32_t rows);

  /// What a block reads, [rows, embedding]: the stream, normalised if that comes first.
  const float* read(const Norm& norm, const StreamWeights& streams, int32_t rows);
  /// What the feed-forward reads: read(), or beside attention what keep_parallel() has kept.
  const float* read_for_feed_forward(const Norm& norm, const StreamWeights& streams, int32_t rows);
  /// Keeps what the feed-forward will read, in parallel blocks where attention reads `x`.
  void keep_parallel(const Norm& feed_forward_norm, const float* x, int32_t rows);
  /// Where a block writes its output, [rows, embedding].
  float* block() const { return activations_.block; }
  /// Adds the block's output.
  void write(const Norm& post_norm, int32_t rows);

  /// The stream with all blocks, [rows, streams, embedding].
  float* stream(int32_t rows);
  /// The mean of all streams, [rows, embedding].
  const float* mean(int32_t rows);
  /// Only these of `rows` go on, in this order.
  void choose(std::span<const int32_t> first, std::span<const int32_t> then, int32_t rows);
  /// What the head reads, normalised: [rows, embedding], over the stream where there is one.
  float* finish(const Norm& norm, const StreamWeights& streams, int32_t rows);
  /// The stream, normalised.
  void norm_stream(const Norm& norm, int32_t rows, float* out);

  /// Null where there is one stream.
  HyperConnections* hyper_connections() { return hyper_ ? &*hyper_ : nullptr; }

 private:
  kernels::Backend& backend_;
  const ResidualConfig config_;
  const int64_t embedding_;
  ResidualActivations activations_;
  std::optional<HyperConnections> hyper_;
  float* hidden_ = nullptr;                // [rows, embedding], the stream
  bool pending_ = false;                   // activations_.block is still to be added
  const float* parallel_input_ = nullptr;  // [rows, embedding]
};

}  // namespace cairn::model
