/// The feed-forward of experts, a part of a layer: a router chooses for each row some of many, whose results are added
/// up by its weights; one more may work on all rows. Its config, its weights, its arrays in a step, and its run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "kernels/routing.h"
#include "kernels/workspace_sizes.h"
#include "model/activation_arena.h"
#include "model/parts/feed_forward.h"
#include "model/weights/linear.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

class MetadataReader;
class WeightLoader;

/// The same in every layer that has experts, but for forms of DeepSeek V4.
struct MoeConfig {
  int64_t width = 0;
  kernels::RouteParams route;  ///< its bias is a layer's weight
  int64_t shared_width = 0;    ///< of an expert that every row passes; 0: none
  bool shared_gated = false;   ///< whose output is scaled by a sigmoid
  bool needs_bias = false;     ///< of the router, which a file may have or not otherwise
  /// > 0: a table says which experts each of so many tokens has, and the router only weighs them.
  int64_t hashed_tokens = 0;
  /// A row is multiplied by its expert's weight before it passes the expert, not after; then each row has one expert.
  bool weighted_inputs = false;
  /// > 0: the experts work on rows of so many elements, made from the residual stream's and made back into such. The
  /// router and the expert of all rows read the residual stream's.
  int64_t latent = 0;
  /// The layer's dense feed-forward works too, and both are added. Each has norms of its own before and after.
  bool beside_dense = false;
  /// The router reads the residual stream by a norm of its own, whose weight is ffn_gate_inp.scale / sqrt(embedding).
  bool router_norm = false;

  /// Elements between the matrices of a row's experts together, or of the one that all rows pass.
  int64_t inner() const;
};

/// Reads expert_count, expert_used_count and the width keys. `dense`: the width of experts in files that do not say it.
/// Error: kCorruptFile.
Result<MoeConfig> read_experts(const MetadataReader& keys, int64_t dense);

/// How chosen experts are scored and weighted, where a file does not say.
struct RoutingDefaults {
  kernels::RouteScore score = kernels::RouteScore::kSoftmax;
  bool renormalise = false;
};

/// expert_shared_count, expert_gating_func, expert_weights_norm, expert_weights_scale and the groups of experts.
/// Errors: kCorruptFile, kUnsupported (a way to score).
Result<void> read_routing(const MetadataReader& keys, const RoutingDefaults& missing, MoeConfig& config);

/// Arrays of a step for R rows, beside those that experts share with dense feed-forwards.
struct ExpertsActivations {
  float* router = nullptr;   ///< [R, experts]
  int32_t* ids = nullptr;    ///< [R, used]
  float* weights = nullptr;  ///< [R, used]
  float* latent = nullptr;   ///< [R, MoeConfig::latent], what experts read and then what they give
  float* out = nullptr;      ///< [R, used, embedding]
  float* shared =
      nullptr;  ///< [R, embedding], of what works beside the experts; may be `out`, which is combined by then
  float* shared_gate = nullptr;  ///< [R]
  std::vector<int32_t> given{};  ///< [R, used] in host memory, where a table chooses experts; reserved once

  /// Without `shared`, which the caller then sets.
  void add_to(ActivationArena& arena, const MoeConfig& config, int64_t rows, int64_t embedding);
};

class Experts {
 public:
  /// The tensors of the layer whose names begin with `prefix`, in a residual stream of `embedding` elements. `routed`
  /// and `shared` say how the experts compute, but for their lengths. Errors: the loader's.
  static Result<std::unique_ptr<Experts>> load(WeightLoader& loader, const std::string& prefix, int64_t embedding,
                                               const MoeConfig& config, const FeedForwardConfig& routed,
                                               const FeedForwardConfig& shared);
  /// Adds what route() and run() need of the backend.
  static void add_work(const MoeConfig& config, int64_t rows, kernels::WorkspaceSizes& sizes);

  /// Chooses experts for rows x [rows, embedding], whose tokens are these.
  void route(kernels::Backend& backend, ExpertsActivations& activations, const float* x, int32_t rows,
             std::span<const TokenId> tokens) const;
  /// x [rows, embedding] to `out` of the same shape, by the experts that were chosen last.
  void run(kernels::Backend& backend, const FeedForwardActivations& inner, const ExpertsActivations& activations,
           const float* x, int32_t rows, float* out) const;

 private:
  Result<void> load_routed(WeightLoader& loader, const std::string& prefix);
  /// Adds what the expert of all rows gives.
  void add_shared(kernels::Backend& backend, const FeedForwardActivations& inner, const ExpertsActivations& activations,
                  const float* x, int32_t rows, float* out) const;

  /// What makes the rows that experts work on, and rows of the residual stream of those.
  struct Latent {
    Linear down;
    Linear up;
  };

  MoeConfig config_;
  FeedForwardConfig routed_;
  int64_t embedding_ = 0;
  Linear router_;
  kernels::Buffer router_bias_;         // for choosing only; may be empty
  std::vector<int32_t> token_experts_;  // [hashed_tokens, used]
  std::unique_ptr<Latent> latent_;      // null: none
  Linear gate_;                         // empty without gates
  Linear up_;
  Linear down_;
  std::unique_ptr<FeedForward> shared_;  // null: none
  std::unique_ptr<Linear> shared_gate_;  // null: none
};

}  // namespace cairn::model
