/// Layers that keep a state instead of keys and values: Gated DeltaNet, Kimi Delta Attention, Mamba-2, and short
/// convolutions. A file beside this has each of them.
///
/// A state cannot be cut back, so drafts leave none. What changes a state is kept of their rows instead: much less than
/// a state, and the same operations make from it the state behind those drafts that are right, with the same bytes as
/// if they had not been drafts.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernels/recurrent_operations.h"
#include "kernels/workspace_sizes.h"
#include "model/activation_arena.h"
#include "model/parts/recurrent/config.h"
#include "model/parts/recurrent/weights.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

/// The rows of a step, and where the layer keeps their sequences' states.
struct RecurrentStep {
  int32_t rows = 0;
  std::span<const kernels::StateSlice> slices;
  std::span<const int32_t> drafts;  ///< numbers of the rows that are drafts
  int32_t layer = 0;                ///< number among the layers that keep a state
};

struct RecurrentSizes {
  int32_t rows = 0;    ///< of a step
  int32_t drafts = 0;  ///< rows of a step that are drafts
  int32_t layers = 0;  ///< that keep a state
};

class RecurrentLayers {
 public:
  /// Bytes that create() takes.
  static int64_t bytes(const RecurrentConfig& config, const RecurrentSizes& sizes);
  /// Adds what run() needs of the backend.
  static void add_work(const RecurrentConfig& config, int32_t rows, kernels::WorkspaceSizes& sizes);
  /// The backend has reserved add_work(). Errors: kUnsupported (a
  /// backend without RecurrentOperations), kOutOfMemory.
  static Result<RecurrentLayers> create(kernels::Backend& backend, const RecurrentConfig& config,
                                        const RecurrentSizes& sizes);

  /// x [rows, embedding] to `out` of the same shape.
  void run(Mixer mixer, const RecurrentWeights& weights, const RecurrentStep& step, const float* x, float* out) const;
  /// The same, added to `out`.
  void run_and_add(Mixer mixer, const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                   float* out) const;
  /// Runs drafts of the last step that are right: those from number `first` on of its `drafts` are the rows of `slice`,
  /// which are no drafts any more. `layer` as in RecurrentStep. At most once for each draft.
  void keep_drafts(Mixer mixer, const RecurrentWeights& weights, int32_t layer, int32_t first,
                   const kernels::StateSlice& slice) const;

 private:
  /// [R, ...] for R rows. Those that the model does not need have no elements.
  struct Activations {
    float* mixed = nullptr;       // channels
    float* convolved = nullptr;   // channels
    float* gate = nullptr;        // inner, or channels of a short convolution
    float* input_gate = nullptr;  // channels of a short convolution
    float* gate_low = nullptr;    // gate_rank, which the gate is made of
    float* alpha_low = nullptr;   // gate_rank, which alpha is made of
    float* alpha = nullptr;       // decays: of the state's factors, or time steps
    float* beta = nullptr;        // heads: DeltaNet's beta, or Mamba's factor of the state
    float* read = nullptr;        // inner: what heads have read of their states
    float* added = nullptr;       // embedding, where attention is beside
    // What is kept of drafts, [layers, drafts, ...].
    float* draft_mixed = nullptr;  // channels: what the convolution has gone over
    float* draft_alpha = nullptr;  // decays
    float* draft_beta = nullptr;   // heads

    void add_to(ActivationArena& arena, const RecurrentConfig& config, const RecurrentSizes& sizes);
  };
  /// What changes a state, of one row after the other.
  struct Inputs {
    float* mixed = nullptr;
    float* alpha = nullptr;
    float* beta = nullptr;
  };

  RecurrentLayers(kernels::Backend& backend, const RecurrentConfig& config, const RecurrentSizes& sizes)
      : backend_(&backend), config_(config), sizes_(sizes) {}

  void gated_delta_net(const RecurrentWeights& weights, const RecurrentStep& step, const float* x, float* out) const;
  void kimi_delta_attention(const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                            float* out) const;
  void mamba2(const RecurrentWeights& weights, const RecurrentStep& step, const float* x, float* out) const;
  void short_convolution(const RecurrentWeights& weights, const RecurrentStep& step, const float* x, float* out) const;
  Inputs inputs() const { return {activations_.mixed, activations_.alpha, activations_.beta}; }
  /// The inputs of a layer's drafts, from the `first` of the step's.
  Inputs draft_inputs(int32_t layer, int32_t first) const;
  /// Keeps the inputs of the step's drafts, once the convolution has gone over them.
  void remember_drafts(const RecurrentStep& step) const;
  /// inputs.mixed to activations_.convolved, through silu.
  void convolve(const RecurrentWeights& weights, std::span<const kernels::StateSlice> slices,
                const Inputs& inputs) const;
  /// What the two kinds of delta rule have in common, from activations_.mixed, alpha, beta and gate on.
  void correct_states(const RecurrentWeights& weights, const RecurrentStep& step, kernels::Activation gate,
                      float* out) const;
  /// activations_.convolved to activations_.read, by the states.
  void delta_rule(const RecurrentWeights& weights, std::span<const kernels::StateSlice> slices,
                  const Inputs& inputs) const;
  void scan(const RecurrentWeights& weights, std::span<const kernels::StateSlice> slices, const Inputs& inputs) const;
  kernels::ConvolutionParams short_convolution_params(const RecurrentWeights& weights) const;

  kernels::Backend* backend_;
  RecurrentConfig config_;
  RecurrentSizes sizes_;
  ActivationArena arena_;
  Activations activations_;
};

}  // namespace cairn::model
