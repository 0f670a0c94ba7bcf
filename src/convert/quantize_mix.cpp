// The types of tensors under each mix.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <string>

#include "base/check.h"
#include "convert/quantize.h"
#include "quant/codec.h"

namespace cairn::convert {
namespace {

constexpr std::array kMixes = {
    QuantizeMixInfo{QuantizeMix::kF32, "F32", "32 bits per weight; nothing is lost"},
    QuantizeMixInfo{QuantizeMix::kBF16, "BF16", "16 bits; the range of F32 with 8 bits of precision"},
    QuantizeMixInfo{QuantizeMix::kF16, "F16", "16 bits; 11 bits of precision up to 65504"},
    QuantizeMixInfo{QuantizeMix::kQ8_0, "Q8_0", "8.5 bits; practically no loss"},
    QuantizeMixInfo{QuantizeMix::kQ6_K, "Q6_K", "6.6 bits; very small loss"},
    QuantizeMixInfo{QuantizeMix::kQ4_K_M, "Q4_K_M", "about 4.9 bits; small loss, the usual choice"},
    QuantizeMixInfo{QuantizeMix::kQ4_K_S, "Q4_K_S", "about 4.6 bits; Q4_K in every layer"},
    QuantizeMixInfo{QuantizeMix::kQ4_0, "Q4_0", "about 4.6 bits; simplest and fastest, more loss than Q4_K"},
};

bool has_small_levels(QuantizeMix mix) {
  return mix == QuantizeMix::kQ4_0 || mix == QuantizeMix::kQ4_K_S || mix == QuantizeMix::kQ4_K_M;
}

bool is_float(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16;
}

// Matrices that are not quantised, because their rounding costs far more than their size saves: routers, position and
// token type tables, the taps of short convolutions, the mixing weights between residual streams, and the projections
// that choose tokens or layers.
constexpr std::string_view kKeptParts[] = {
    "_norm.weight", "ffn_gate_inp", "position_embd", "token_types", "ssm_conv1d",           "shortconv.conv",
    ".hc_",         "output_hc_",   "indexer.proj",  "_ape.weight", "per_layer_model_proj",
};

bool stays(const gguf::Tensor& tensor) {
  const bool one_row = tensor.elements() == tensor.shape[0];
  if (one_row || !tensor.name.ends_with(".weight")) return true;
  return std::ranges::any_of(kKeptParts, [&](std::string_view part) { return tensor.name.contains(part); });
}

// N of "blk.N.rest", and the rest.
struct LayerName {
  int64_t layer;
  std::string_view rest;
};
std::optional<LayerName> layer_name(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* end = name.data() + name.size();
  LayerName parts{};
  const auto [dot, error] = std::from_chars(name.data() + kPrefix.size(), end, parts.layer);
  if (error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  parts.rest = std::string_view(dot + 1, end);
  return parts;
}

bool is_attention_value(std::string_view rest) { return rest == "attn_v.weight"; }
bool is_ffn_down(std::string_view rest) { return rest.starts_with("ffn_down"); }

// The layers that have a kind of tensor, in order: a layer's index among them decides its type.
class LayerOrder {
 public:
  LayerOrder(std::span<const gguf::Tensor> tensors, bool (*is_kind)(std::string_view rest)) {
    for (const gguf::Tensor& tensor : tensors) {
      const auto name = layer_name(tensor.name);
      if (name.has_value() && is_kind(name->rest)) layers_.insert(name->layer);
    }
  }

  // Whether the layer is in the first or the last eighth, or every third between: errors there cost the most.
  bool is_sensitive(int64_t layer) const {
    const auto count = static_cast<int64_t>(layers_.size());
    const auto place = static_cast<int64_t>(std::distance(layers_.begin(), layers_.find(layer)));
    return place < count / 8 || place >= 7 * count / 8 || (place - count / 8) % 3 == 2;
  }

 private:
  std::set<int64_t> layers_;
};

// `wanted`, or the type that a row of this length can have instead.
TensorType fitting(TensorType wanted, const gguf::Tensor& tensor) {
  if (tensor.shape[0] % tensor_type_info(wanted).block_elements == 0) return wanted;
  if (tensor.shape[0] % tensor_type_info(TensorType::kQ8_0).block_elements == 0) return TensorType::kQ8_0;
  return tensor.type == TensorType::kBF16 ? TensorType::kBF16 : TensorType::kF16;
}

// Sets the type to `wanted(tensor)` unless the tensor must keep its own.
template <class Wanted>
std::vector<TensorType> choose(std::span<const gguf::Tensor> tensors, Wanted wanted) {
  std::vector<TensorType> types;
  for (const gguf::Tensor& tensor : tensors) {
    if (!quant::can_decode(tensor.type)) {
      types.push_back(tensor.type);
    } else if (const TensorType type = wanted(tensor); type == TensorType::kF32) {
      types.push_back(type);
    } else if (stays(tensor)) {
      types.push_back(is_float(tensor.type) ? tensor.type : TensorType::kF32);
    } else {
      types.push_back(fitting(type, tensor));
    }
  }
  return types;
}

}  // namespace

std::span<const QuantizeMixInfo> quantize_mixes() { return kMixes; }

const QuantizeMixInfo& quantize_mix_info(QuantizeMix mix) {
  const auto* found = std::ranges::find(kMixes, mix, &QuantizeMixInfo::mix);
  CAIRN_CHECK(found != kMixes.end());
  return *found;
}

std::optional<QuantizeMix> quantize_mix_named(std::string_view name) {
  std::string upper(name);
  for (char& letter : upper) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  if (upper == "Q4_K") return QuantizeMix::kQ4_K_M;
  for (const auto& info : kMixes) {
    if (info.name == upper) return info.mix;
  }
  return std::nullopt;
}

std::vector<TensorType> choose_types(std::span<const gguf::Tensor> tensors, QuantizeMix mix) {
  const TensorType base = file_type_main(quantize_mix_info(mix).name).value();
  const LayerOrder value_layers(tensors, is_attention_value);
  const LayerOrder down_layers(tensors, is_ffn_down);
  const bool has_output =
      std::ranges::any_of(tensors, [](const auto& tensor) { return tensor.name == "output.weight"; });
  const std::string_view output = has_output ? "output.weight" : "token_embd.weight";
  return choose(tensors, [&](const gguf::Tensor& tensor) {
    if (has_small_levels(mix) && tensor.name == output) return TensorType::kQ6_K;
    const auto name = layer_name(tensor.name);
    if (mix == QuantizeMix::kQ4_K_M && name.has_value()) {
      if (is_attention_value(name->rest) && value_layers.is_sensitive(name->layer)) return TensorType::kQ6_K;
      if (is_ffn_down(name->rest) && down_layers.is_sensitive(name->layer)) return TensorType::kQ6_K;
    }
    return base;
  });
}

std::vector<TensorType> choose_types(std::span<const gguf::Tensor> tensors, TensorType type) {
  return choose(tensors, [type](const gguf::Tensor&) { return type; });
}

}  // namespace cairn::convert
