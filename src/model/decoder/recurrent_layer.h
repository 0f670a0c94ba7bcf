/// Layers that keep a state instead of keys and values: Gated DeltaNet, Mamba-2, and short convolutions. A file beside
/// this has each of them.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernels/backend.h"
#include "model/activation_arena.h"
#include "model/config.h"
#include "model/weights/recurrent_weights.h"

namespace cairn {

/// The rows of a step, and where the layer keeps their sequences' states.
struct RecurrentStep {
  int32_t rows = 0;
  std::span<const StateSlice> slices;
};

class RecurrentLayers {
 public:
  /// Bytes that create() takes.
  static int64_t bytes(const DecoderConfig& config, int32_t rows);
  /// Adds what run() needs of the backend.
  static void add_work(const DecoderConfig& config, int32_t rows, WorkspaceSizes& sizes);
  /// For steps of at most `rows`; `config`, which has `recurrent`, outlives this. The backend has reserved add_work().
  /// Errors: kUnsupported (a backend without RecurrentOperations), kOutOfMemory.
  static Result<RecurrentLayers> create(Backend& backend, const DecoderConfig& config, int32_t rows);

  /// x [rows, embedding] to `out` of the same shape.
  void run(Mixer mixer, const RecurrentWeights& weights, const RecurrentStep& step, const float* x, float* out) const;
  /// The same, added to `out`.
  void run_and_add(Mixer mixer, const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                   float* out) const;

 private:
  /// [R, ...] for R rows. Those that the model does not need have no elements.
  struct Activations {
    float* mixed = nullptr;       // channels
    float* convolved = nullptr;   // channels
    float* gate = nullptr;        // inner, or channels of a short convolution
    float* input_gate = nullptr;  // channels of a short convolution
    float* alpha = nullptr;       // heads: of the state's factor, or time steps
    float* beta = nullptr;        // heads: DeltaNet's beta, or Mamba's factor of the state
    float* read = nullptr;        // inner: what heads have read of their states
    float* added = nullptr;       // embedding, where attention is beside

    void add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows);
  };

  RecurrentLayers(Backend& backend, const DecoderConfig& config) : backend_(&backend), description_(&config) {}

  void gated_delta_net(const RecurrentWeights& weights, const RecurrentStep& step, const float* x, float* out) const;
  void mamba2(const RecurrentWeights& weights, const RecurrentStep& step, const float* x, float* out) const;
  void short_convolution(const RecurrentWeights& weights, const RecurrentStep& step, const float* x, float* out) const;
  /// activations_.mixed to convolved, through silu.
  void convolve(const RecurrentWeights& weights, const RecurrentStep& step) const;

  Backend* backend_;
  const DecoderConfig* description_;
  ActivationArena arena_;
  Activations activations_;
};

}  // namespace cairn
