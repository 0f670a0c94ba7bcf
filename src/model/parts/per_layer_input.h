/// Inputs that each layer has of its own (Gemma 4's small models), a part of a layer: from a token, by a table, and
/// from its embedding. Its config, its weights, its arrays in a step, and its run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "kernels/operation_params.h"
#include "kernels/workspace_sizes.h"
#include "model/activation_arena.h"
#include "model/parts/norm.h"
#include "model/weights/linear.h"
#include "model/weights/row_table.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

class WeightLoader;

struct PerLayerInputConfig {
  int64_t elements = 0;  ///< of a token's input that each layer has
  int64_t vocabulary = 0;
  int64_t embedding = 0;
  int32_t layers = 0;  ///< of the model
  int32_t begin = 0;   ///< layers [begin, end) are computed here
  int32_t end = 0;
  kernels::Activation activation = kernels::Activation::kSilu;
  float norm_epsilon = 0;

  /// Elements of the inputs of all layers that are computed here.
  int64_t row_elements() const { return (end - begin) * elements; }
};

/// What makes the inputs.
struct PerLayerInputWeights {
  RowTable tokens;    ///< [vocabulary, layers of the model * elements]
  Linear projection;  ///< [layers of the range * elements, embedding]
  Norm norm;          ///< of a layer's elements

  static Result<PerLayerInputWeights> load(WeightLoader& loader, const PerLayerInputConfig& config);
};

/// For N layers, with d elements each: inputs = (norm(projection x / sqrt(embedding)) + sqrt(d) * the token's row) /
/// sqrt(2), where x is the residual stream before the first layer, and the norm is over each layer's elements.
class PerLayerInputs {
 public:
  /// Bytes that create() takes, those in host memory too.
  static int64_t bytes(const PerLayerInputConfig& config, int32_t rows);
  /// Adds what the operations need of the backend.
  static void add_work(const PerLayerInputConfig& config, int32_t rows, kernels::WorkspaceSizes& sizes);
  /// For steps of at most `rows`; the weights outlive this. Errors: kOutOfMemory.
  static Result<PerLayerInputs> create(kernels::Backend& backend, const PerLayerInputConfig& config,
                                       const PerLayerInputWeights& weights, int32_t rows);

  /// Reads the tokens' rows of the table, before the step begins on the backend.
  void look_up(std::span<const TokenId> tokens);
  /// Makes the inputs; x [rows looked up, embedding].
  void compute(const float* x);
  /// Takes out the inputs of a layer: input() is [rows, elements].
  void begin_layer(int32_t layer);
  float* input() const { return input_; }
  /// Only these rows of input() go on, in this order.
  void choose(std::span<const int32_t> first, std::span<const int32_t> then);
  /// An array for as many elements as input().
  float* gate() const { return activations_.gate; }
  const PerLayerInputConfig& config() const { return config_; }

 private:
  /// For R rows.
  struct Activations {
    float* tokens = nullptr;  // [R, layers * elements]
    float* inputs = nullptr;  // the same
    float* input = nullptr;   // [R, elements]
    float* other = nullptr;   // the same
    float* gate = nullptr;    // the same

    void add_to(ActivationArena& arena, const PerLayerInputConfig& config, int64_t rows);
  };

  PerLayerInputs(kernels::Backend& backend, const PerLayerInputConfig& config, const PerLayerInputWeights& weights)
      : backend_(&backend), config_(config), weights_(&weights) {}

  kernels::Backend* backend_;
  PerLayerInputConfig config_;
  const PerLayerInputWeights* weights_;
  ActivationArena arena_;
  Activations activations_;
  std::vector<float> row_;         // a row of the table, which has all layers of the model
  std::vector<float> token_rows_;  // [R, layers * elements]
  int32_t rows_ = 0;
  float* input_ = nullptr;
};

/// What a layer does with its input.
class LayerInput {
 public:
  /// The tensors of the layer whose names begin with `prefix`. Errors: the loader's.
  static Result<std::unique_ptr<LayerInput>> load(WeightLoader& loader, const std::string& prefix,
                                                  const PerLayerInputConfig& config);
  /// out [rows, embedding] = projection(act(gate x) * input).
  void run(kernels::Backend& backend, const PerLayerInputs& inputs, const float* x, int32_t rows, float* out) const;

 private:
  Linear gate_;
  Linear projection_;
};

}  // namespace cairn::model
