/// The dense feed-forward, a part of a layer: its config, its weights, its arrays in a step, and its run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "kernels/operation_params.h"
#include "kernels/workspace_sizes.h"
#include "model/activation_arena.h"
#include "model/weights/linear.h"

namespace cairn::kernels {
class Backend;
class RowOperations;
}  // namespace cairn::kernels

namespace cairn::model {

class WeightLoader;

struct FeedForwardConfig {
  int64_t length = 0;  ///< elements between its matrices
  kernels::Activation activation = kernels::Activation::kSilu;
  bool gated = true;   ///< down(act(gate x) * up x); otherwise down(act(up x))
  bool fused = false;  ///< the tensor of `up` holds the gate's rows, then its own
  /// The gate's input is at most this, and what it multiplies is within this on both sides.
  std::optional<float> clamp = {};
};

/// Arrays of a step for R rows, in which feed-forwards and experts of all layers work one after the other.
struct FeedForwardActivations {
  float* gate = nullptr;  ///< [R, the largest length with a gate], or [R, used, width] of experts
  float* up = nullptr;    ///< [R, the largest length], or [R, used, width] of experts

  void add_to(ActivationArena& arena, int64_t rows, int64_t gate_elements, int64_t up_elements) {
    arena.add(gate, rows * gate_elements);
    arena.add(up, rows * up_elements);
  }
  /// What comes between the matrices: up [rows, length] becomes act(gate) * up, or act(up) without a gate.
  void activate(kernels::RowOperations& operations, const FeedForwardConfig& config, int64_t rows) const;
};

class FeedForward {
 public:
  /// The matrices `prefix` gate, up and down `ending`, in a residual stream of `embedding` elements. Errors: the
  /// loader's.
  static Result<std::unique_ptr<FeedForward>> load(WeightLoader& loader, const std::string& prefix,
                                                   const std::string& ending, int64_t embedding,
                                                   const FeedForwardConfig& config);
  /// Adds what run() needs of the backend where the largest length is this.
  static void add_work(int64_t rows, int64_t length, kernels::WorkspaceSizes& sizes) {
    sizes.inputs.push_back({rows, length});
  }

  /// x [rows, embedding] to `out` of the same shape.
  void run(kernels::Backend& backend, const FeedForwardActivations& activations, const float* x, int32_t rows,
           float* out) const;

 private:
  FeedForwardConfig config_;
  Linear gate_;  // empty without a gate
  Linear up_;
  Linear down_;
};

}  // namespace cairn::model
