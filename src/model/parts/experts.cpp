#include "model/parts/experts.h"

#include <algorithm>
#include <utility>

#include "kernels/backend.h"
#include "model/metadata_reader.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

namespace {

/// Which experts each token has: I32 [used, tokens].
Result<std::vector<int32_t>> load_token_experts(WeightLoader& loader, const std::string& name,
                                                const MoeConfig& config) {
  const int64_t used = config.route.used;
  CAIRN_TRY(std::vector<int32_t> ids, loader.numbers(name, config.hashed_tokens, used));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < config.route.experts) continue;
    return fail_at("tensor " + name, Code::kCorruptFile, "{} names expert {} for token {}; there are {}", name, ids[i],
                   static_cast<int64_t>(i) / used, config.route.experts);
  }
  return ids;
}

}  // namespace

int64_t MoeConfig::inner() const { return std::max(route.used * width, shared_width); }

void ExpertsActivations::add_to(ActivationArena& arena, const MoeConfig& config, int64_t rows, int64_t embedding) {
  const int64_t used = config.route.used;
  arena.add(router, rows * config.route.experts);
  arena.add(ids, rows * used);
  arena.add(weights, rows * used);
  arena.add(latent, rows * config.latent);
  arena.add(out, rows * used * embedding);
  arena.add(shared_gate, config.shared_gated ? rows : 0);
}

void Experts::add_work(const MoeConfig& config, int64_t rows, kernels::WorkspaceSizes& sizes) {
  // Each choice has an input of its own.
  const int64_t choices = rows * config.route.used;
  sizes.inputs.push_back({choices, config.width});
  sizes.inputs.push_back({rows, config.latent});
  FeedForward::add_work(rows, config.shared_width, sizes);
  sizes.expert_choices = std::max(sizes.expert_choices, choices);
  sizes.experts = std::max<int64_t>(sizes.experts, config.route.experts);
  sizes.routed_experts = config.route.experts;
  sizes.route_groups = config.route.groups;
}

Result<std::unique_ptr<Experts>> Experts::load(WeightLoader& loader, const std::string& prefix, int64_t embedding,
                                               const MoeConfig& config, const FeedForwardConfig& routed,
                                               const FeedForwardConfig& shared) {
  auto made = std::make_unique<Experts>();
  made->config_ = config;
  made->config_.route.given = config.hashed_tokens > 0;
  made->routed_ = routed;
  made->routed_.length = config.width;
  made->embedding_ = embedding;
  const std::string router = prefix + "ffn_gate_inp";
  CAIRN_TRY(made->router_, config.router_norm ? loader.linear_without_scale(router, config.route.experts, embedding)
                                              : loader.linear(router, config.route.experts, embedding));
  const std::string bias = prefix + "exp_probs_b.bias";
  if (config.hashed_tokens > 0) {
    CAIRN_TRY(made->token_experts_, load_token_experts(loader, prefix + "ffn_gate_tid2eid.weight", config));
  } else if (config.needs_bias || loader.has(bias)) {
    CAIRN_TRY(made->router_bias_, loader.vector(bias, config.route.experts));
    made->config_.route.bias = made->router_bias_.floats();
  }
  CAIRN_TRY_VOID(made->load_routed(loader, prefix));
  if (config.shared_width == 0) return made;
  FeedForwardConfig of_all = shared;
  of_all.length = config.shared_width;
  of_all.fused = false;
  CAIRN_TRY(made->shared_, FeedForward::load(loader, prefix + "ffn_", "_shexp", embedding, of_all));
  if (config.shared_gated) {
    made->shared_gate_ = std::make_unique<Linear>();
    CAIRN_TRY(*made->shared_gate_, loader.linear(prefix + "ffn_gate_inp_shexp", 1, embedding));
  }
  return made;
}

Result<void> Experts::load_routed(WeightLoader& loader, const std::string& prefix) {
  const int64_t experts = config_.route.experts, inner = config_.width;
  const int64_t width = config_.latent > 0 ? config_.latent : embedding_;
  if (config_.latent > 0) {
    latent_ = std::make_unique<Latent>();
    CAIRN_TRY(latent_->down, loader.linear(prefix + "ffn_latent_down", config_.latent, embedding_));
    CAIRN_TRY(latent_->up, loader.linear(prefix + "ffn_latent_up", embedding_, config_.latent));
  }
  if (const std::string fused = prefix + "ffn_gate_up_exps"; loader.has(fused + ".weight")) {
    CAIRN_TRY(gate_, loader.expert_rows(fused, experts, 2 * inner, width, {0, inner}));
    CAIRN_TRY(up_, loader.expert_rows(fused, experts, 2 * inner, width, {inner, inner}));
  } else {
    if (routed_.gated) {
      CAIRN_TRY(gate_, loader.experts(prefix + "ffn_gate_exps", experts, inner, width));
    }
    CAIRN_TRY(up_, loader.experts(prefix + "ffn_up_exps", experts, inner, width));
  }
  CAIRN_TRY(down_, loader.experts(prefix + "ffn_down_exps", experts, width, inner));
  return {};
}

void Experts::route(kernels::Backend& backend, ExpertsActivations& activations, const float* x, int32_t rows,
                    std::span<const TokenId> tokens) const {
  const kernels::MatmulTarget logits[] = {router_.to(activations.router)};
  backend.matmul(logits, x, rows);
  if (config_.hashed_tokens > 0) {
    std::vector<int32_t>& given = activations.given;
    const auto used = static_cast<size_t>(config_.route.used);
    given.clear();
    for (const TokenId token : tokens) {
      const auto ids = std::span(token_experts_).subspan(static_cast<size_t>(index(token)) * used, used);
      given.insert(given.end(), ids.begin(), ids.end());
    }
    backend.write(given.data(), static_cast<int64_t>(given.size() * sizeof(int32_t)), activations.ids);
  }
  backend.route(config_.route, activations.router, rows, activations.ids, activations.weights);
}

void Experts::run(kernels::Backend& backend, const FeedForwardActivations& inner, const ExpertsActivations& activations,
                  const float* x, int32_t rows, float* out) const {
  const int32_t used = config_.route.used;
  const bool shorter = config_.latent > 0;
  const int64_t width = shorter ? config_.latent : embedding_;
  const float* input = x;
  if (shorter) {
    const kernels::MatmulTarget down[] = {latent_->down.to(activations.latent)};
    backend.matmul(down, x, rows);
    input = activations.latent;
  }
  if (config_.weighted_inputs) {
    backend.moe_combine(input, activations.weights, rows, used, width, activations.out);
    input = activations.out;
  }
  const kernels::MatmulTarget in[] = {gate_.to(inner.gate), up_.to(inner.up)};
  backend.grouped_matmul(std::span(in).subspan(routed_.gated ? 0 : 1), input, rows, activations.ids, used, false);
  inner.activate(backend, routed_, int64_t{rows} * used);
  float* result = shorter ? activations.latent : out;
  const kernels::MatmulTarget down[] = {down_.to(config_.weighted_inputs ? result : activations.out)};
  backend.grouped_matmul(down, inner.up, rows, activations.ids, used, true);
  if (!config_.weighted_inputs) {
    backend.moe_combine(activations.out, activations.weights, rows, used, width, result);
  }
  if (shorter) {
    const kernels::MatmulTarget up[] = {latent_->up.to(out)};
    backend.matmul(up, activations.latent, rows);
  }
  if (config_.shared_width > 0) add_shared(backend, inner, activations, x, rows, out);
}

void Experts::add_shared(kernels::Backend& backend, const FeedForwardActivations& inner,
                         const ExpertsActivations& activations, const float* x, int32_t rows, float* out) const {
  shared_->run(backend, inner, x, rows, activations.shared);
  if (config_.shared_gated) {
    const kernels::MatmulTarget gate[] = {shared_gate_->to(activations.shared_gate)};
    backend.matmul(gate, x, rows);
    backend.sigmoid_scale_rows(activations.shared, activations.shared_gate, rows, embedding_);
  }
  backend.add(out, activations.shared, rows * embedding_, 1);
}

}  // namespace cairn::model
