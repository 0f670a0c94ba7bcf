// The tensors that a model is loaded from, listed by its loader.
#include "synth/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"
#include "synth/presets.h"

namespace cairn::synth {
namespace {

// What names end with; the first that fits counts. Others are norms if they have one dimension, or matrices.
constexpr std::pair<std::string_view, Role> kRoles[] = {
    {".bias", Role::kBias},
    {"attn_sinks.weight", Role::kBias},
    {"_base.weight", Role::kBias},
    {"ffn_gate_inp_shexp.weight", Role::kBias},
    {"layer_output_scale.weight", Role::kNorm},
    {"_scale.weight", Role::kMixScale},
    {"ssm_a", Role::kRate},
    {"ssm_d", Role::kNorm},
    {"ssm_norm.weight", Role::kNorm},
    {"engram_q.weight", Role::kNorm},
    {"engram_k.weight", Role::kNorm},
    {"engram_embd.weight", Role::kTable},
    {"ffn_gate_tid2eid.weight", Role::kExpertIds},
};

Role role_of(const gguf::Tensor& tensor) {
  for (const auto& [ending, role] : kRoles) {
    if (tensor.name.ends_with(ending)) return role;
  }
  return tensor.shape.size() == 1 ? Role::kNorm : Role::kMatrix;
}

TensorPlan plan_of(const gguf::Tensor& tensor) {
  TensorPlan plan{std::string(tensor.name), tensor.shape, role_of(tensor), tensor.type, 0};
  // A matrix of one row stays one.
  while (plan.role != Role::kMatrix && plan.shape.size() > 1 && plan.shape.back() == 1) plan.shape.pop_back();
  return plan;
}

// What the loader looks for in the file before it asks for tensors, or instead.
KnownTensors known_of(const Shape& shape) {
  const Architecture& row = shape.row();
  KnownTensors known{{"token_embd.weight", {1, shape.integer("vocab_size")}}};
  if (!shape.tied_output) known.push_back({"output.weight", {1}});
  std::vector<std::string> prefixes;
  for (int64_t layer = 0; layer < shape.layers(); ++layer) prefixes.push_back(fmt::format("blk.{}.", layer));
  const int64_t stages = std::min(shape.integer("dspark.stage_count"), kLayersMax);
  for (int64_t stage = 0; stage < stages; ++stage) prefixes.push_back(fmt::format("mtp.{}.", stage));
  constexpr int64_t kSoftmax = 1;
  for (const std::string& prefix : prefixes) {
    for (const auto part : row.optional_tensors | std::views::split(' ')) {
      const std::string_view name(part);
      if (name == "exp_probs_b.bias" && shape.integer("expert_gating_func") == kSoftmax) continue;
      known.push_back({fmt::format("{}{}", prefix, name), {1, 1, 1}});  // a convolution may have three dimensions
    }
    if (shape.flat_output_a) known.push_back({prefix + "attn_output_a.weight", {1, 1}});
  }
  if (row.add_known != nullptr) row.add_known(shape, known);
  return known;
}

// The loader reads the first MTP module alone.
void repeat_mtp_module(const Shape& shape, std::vector<TensorPlan>& tensors) {
  const int64_t modules = shape.integer("nextn_predict_layers"), first = shape.integer("block_count") - modules;
  const std::string prefix = fmt::format("blk.{}.", first);
  for (int64_t i = 1; i < modules; ++i) {
    for (size_t k = 0, count = tensors.size(); k < count; ++k) {
      if (!tensors[k].name.starts_with(prefix)) continue;
      TensorPlan other = tensors[k];
      other.name = fmt::format("blk.{}.{}", first + i, other.name.substr(prefix.size()));
      tensors.push_back(std::move(other));
    }
  }
}

}  // namespace

int64_t TensorPlan::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

Result<std::vector<TensorPlan>> tensors_of(const Shape& shape) {
  const ShapeMetadata metadata = shape.metadata();
  std::map<std::string_view, gguf::Value> values(metadata.values.begin(), metadata.values.end());
  values["general.architecture"] = {gguf::ValueType::kString, shape.row().name};
  const KnownTensors known = known_of(shape);
  std::vector<gguf::Tensor> there;
  for (const auto& [name, dimensions] : known) there.push_back({name, TensorType::kF32, dimensions, {}});
  const auto file = gguf::Reader::planned(gguf::Metadata(std::move(values)), std::move(there));
  CAIRN_TRY(const auto backend, kernels::make_cpu_backend({.threads = 1, .isa = ""}));
  const auto wanted = model::wanted_tensors(file, *backend);
  if (!wanted.has_value()) {
    return fail_at(wanted.error().at, Code::kInvalidArgument, "{}", wanted.error().message);
  }
  std::vector<TensorPlan> tensors;
  if (shape.row().rope_factors) {
    const int64_t pairs = shape.integer("rope.dimension_count") / 2;
    tensors.push_back({"rope_freqs.weight", {pairs}, Role::kRopeFactors, TensorType::kF32, 0});
  }
  for (const gguf::Tensor* tensor : wanted->tensors()) tensors.push_back(plan_of(*tensor));
  repeat_mtp_module(shape, tensors);
  return tensors;
}

}  // namespace cairn::synth
