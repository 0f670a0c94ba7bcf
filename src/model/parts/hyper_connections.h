/// Several residual streams of a row, a part of a model (hyper-connections, DeepSeek V4): every block reads a mix of
/// them, and what it gives is mixed back. Their config, their weights, their arrays in a step, and their run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/device_memory.h"
#include "model/activation_arena.h"
#include "model/parts/norm.h"
#include "model/weights/linear.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

class WeightLoader;

struct HyperConnectionConfig {
  int32_t streams = 0;  ///< see kernels/hyper_connection_operations.h
  int32_t rounds = 0;
  float epsilon = 0;
  int64_t embedding = 0;
  float norm_epsilon = 0;
  bool carried = false;   ///< what a block reads of each stream is found by the block before it (V4.1)
  bool averaged = false;  ///< the mean of all streams is asked for, too

  int64_t width() const { return streams * embedding; }
  /// Elements of a token that HyperConnections::save() leaves.
  int64_t saved_elements() const;
};

/// A block's logits of stream shares, and what they are scaled and moved by.
struct StreamWeights {
  Linear logits;
  kernels::Buffer scale;
  kernels::Buffer base;

  /// `name`_fn, _scale and _base of a block.
  static Result<StreamWeights> load(WeightLoader& loader, const std::string& name, const HyperConnectionConfig& config);
  /// The same of the output, which reads alone.
  static Result<StreamWeights> load_output(WeightLoader& loader, const std::string& name,
                                           const HyperConnectionConfig& config);
  bool exist() const { return logits.weight.rows > 0; }
};

/// Arrays of a step for R rows.
struct HyperConnectionActivations {
  float* streams = nullptr;       ///< [R, streams, embedding]
  float* streams_next = nullptr;  ///< the same
  float* flat = nullptr;          ///< the same, normalised
  float* share_logits = nullptr;  ///< [R, stream_shares]
  float* shares = nullptr;        ///< the same, as the next ones
  float* shares_next = nullptr;   ///< the block before's, where they are carried
  float* shares_first = nullptr;  ///< those that the first block reads by, where they are carried
  float* shares_even = nullptr;   ///< of the mean of all streams

  void add_to(ActivationArena& arena, const HyperConnectionConfig& config, int64_t rows);
};

/// The streams of the step in progress.
class HyperConnections {
 public:
  /// The backend has HyperConnectionOperations, and outlives this.
  HyperConnections(kernels::Backend& backend, const HyperConnectionConfig& config)
      : backend_(backend), config_(config) {}
  /// The arrays, once they are allocated, for steps of at most `rows`.
  void prepare(const HyperConnectionActivations& activations, int64_t rows);

  /// A step begins, with the same memory as the one before.
  void begin_step();
  /// Each of rows [rows, embedding] becomes every stream.
  void begin(const float* x, int32_t rows) { repeat(x, rows, activations_.streams); }
  /// Reads the streams, and by what shares the next block reads them, into host memory once the backend finishes;
  /// load() takes the step up from there. `saved` has [rows, HyperConnectionConfig::saved_elements()] elements.
  void save(std::span<float> saved, int32_t rows);
  void load(std::span<const float> saved, int32_t rows);
  /// input [rows, embedding] = what a block reads of the streams, normalised.
  void read(const StreamWeights& weights, const Norm& norm, int32_t rows, float* input);
  /// Mixes what the block gives into the streams.
  void write(const float* block, int32_t rows);
  /// Only these rows go on, in this order.
  void choose(std::span<const int32_t> first, std::span<const int32_t> then);
  /// out [rows, embedding]: what the streams are read as behind the last layer.
  void collapse(const StreamWeights& weights, int32_t rows, float* out);
  /// out [rows, embedding]: the mean of the streams.
  void average(int32_t rows, float* out);

  /// [rows, streams, embedding], as the next two, in which others may work between blocks.
  float* streams() const { return activations_.streams; }
  float* other() const { return activations_.streams_next; }
  float* flat() const { return activations_.flat; }
  void repeat(const float* x, int32_t rows, float* streams);

 private:
  /// share_logits of the streams, normalised.
  void find_logits(const StreamWeights& weights, int32_t rows);

  kernels::Backend& backend_;
  const HyperConnectionConfig config_;
  HyperConnectionActivations activations_;
  std::vector<int32_t> stream_rows_;  // each row as many times as there are streams; reserved once
  const float* carried_ = nullptr;    // shares by which the next block reads the streams
};

}  // namespace cairn::model
