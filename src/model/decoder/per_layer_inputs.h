/// Inputs that each layer has of its own (Gemma 4's small models): from a token, by a table, and from its embedding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "kernels/workspace_sizes.h"
#include "model/activation_arena.h"
#include "model/config.h"
#include "model/weights/decoder_weights.h"

namespace cairn {

class Backend;

/// For N layers, with d elements each: inputs = (norm(projection x / sqrt(embedding)) + sqrt(d) * the token's row) /
/// sqrt(2), where x is the residual stream before the first layer, and the norm is over each layer's elements.
class PerLayerInputs {
 public:
  /// Bytes that create() takes, those in host memory too.
  static int64_t bytes(const DecoderConfig& config, int32_t rows, LayerRange range);
  /// Adds what the operations need of the backend.
  static void add_work(const DecoderConfig& config, int32_t rows, WorkspaceSizes& sizes);
  /// For steps of at most `rows`; config and weights outlive this. Errors: kOutOfMemory.
  static Result<PerLayerInputs> create(Backend& backend, const DecoderConfig& config, LayerRange range, int32_t rows);

  /// Reads the tokens' rows of the table, before the step begins on the backend.
  void look_up(const PerLayerInputWeights& weights, std::span<const TokenId> tokens);
  /// Makes the inputs; x [rows looked up, embedding].
  void compute(const PerLayerInputWeights& weights, const float* x);
  /// Takes out the inputs of a layer: input() is [rows, elements].
  void begin_layer(int32_t layer);
  float* input() const { return input_; }
  /// As many elements as input(), which become input() by use_other().
  float* other() const { return input_ == activations_.input ? activations_.other : activations_.input; }
  void use_other() { input_ = other(); }
  /// out [rows, embedding] = projection(act(gate x) * input()), for the layer's weights.
  void apply(const LayerWeights& weights, const float* x, int32_t rows, float* out) const;

 private:
  /// For R rows.
  struct Activations {
    float* tokens = nullptr;  // [R, layers * elements]
    float* inputs = nullptr;  // the same
    float* input = nullptr;   // [R, elements]
    float* other = nullptr;   // the same
    float* gate = nullptr;    // the same

    void add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows, LayerRange range);
  };

  PerLayerInputs(Backend& backend, const DecoderConfig& config, LayerRange range)
      : backend_(&backend), description_(&config), range_(range) {}

  int64_t row_elements() const { return (range_.end - range_.begin) * description_->per_layer_input; }

  Backend* backend_;
  const DecoderConfig* description_;
  LayerRange range_;
  ActivationArena arena_;
  Activations activations_;
  std::vector<float> row_;         // a row of the table, which has all layers of the model
  std::vector<float> token_rows_;  // [R, layers * elements]
  int32_t rows_ = 0;
  float* input_ = nullptr;
};

}  // namespace cairn
