#include "convert/quantize_mix.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <regex>
#include <set>
#include <string>

#include "base/check.h"
#include "base/text/printable.h"
#include "quant/codec.h"

namespace cairn::convert {
namespace {

using enum TensorType;

constexpr std::array kMixes = {
    QuantizeMixInfo{QuantizeMix::kF32, "F32", "32 bits per weight; nothing is lost", kF32},
    QuantizeMixInfo{QuantizeMix::kBF16, "BF16", "16 bits; the range of F32 with 8 bits of precision", kBF16},
    QuantizeMixInfo{QuantizeMix::kF16, "F16", "16 bits; 11 bits of precision up to 65504", kF16},
    QuantizeMixInfo{QuantizeMix::kQ8_0, "Q8_0", "8.5 bits; practically no loss", kQ8_0},
    QuantizeMixInfo{QuantizeMix::kQ6_K, "Q6_K", "6.6 bits; very small loss", kQ6_K},
    QuantizeMixInfo{QuantizeMix::kQ5_1, "Q5_1", "6 bits; for rows that are no multiple of 256", kQ5_1},
    QuantizeMixInfo{QuantizeMix::kQ5_K_M, "Q5_K_M", "about 5.7 bits; small loss", kQ5_K},
    QuantizeMixInfo{QuantizeMix::kQ5_K_S, "Q5_K_S", "about 5.5 bits; Q5_K in every layer", kQ5_K},
    QuantizeMixInfo{QuantizeMix::kQ5_0, "Q5_0", "about 5.5 bits; for rows that are no multiple of 256", kQ5_0},
    QuantizeMixInfo{QuantizeMix::kQ4_1, "Q4_1", "5 bits; more loss than Q4_K", kQ4_1},
    QuantizeMixInfo{QuantizeMix::kQ4_K_M, "Q4_K_M", "about 4.9 bits; small loss, the usual choice", kQ4_K},
    QuantizeMixInfo{QuantizeMix::kQ4_K_S, "Q4_K_S", "about 4.6 bits; Q4_K in nearly every layer", kQ4_K},
    QuantizeMixInfo{QuantizeMix::kQ4_0, "Q4_0", "about 4.6 bits; simplest and fastest, more loss than Q4_K", kQ4_0},
    QuantizeMixInfo{QuantizeMix::kIQ4_NL, "IQ4_NL", "about 4.6 bits; for rows that are no multiple of 256", kIQ4_NL},
    QuantizeMixInfo{QuantizeMix::kIQ4_XS, "IQ4_XS", "about 4.3 bits; less than Q4_K_S with nearly its loss", kIQ4_XS},
    QuantizeMixInfo{QuantizeMix::kMXFP4, "MXFP4", "4.25 bits for experts, Q8_0 for all else", kMXFP4},
    QuantizeMixInfo{QuantizeMix::kQ3_K_L, "Q3_K_L", "about 4.3 bits; noticeable loss", kQ3_K},
    QuantizeMixInfo{QuantizeMix::kQ3_K_M, "Q3_K_M", "about 3.9 bits; noticeable loss", kQ3_K},
    QuantizeMixInfo{QuantizeMix::kIQ3_M, "IQ3_M", "about 3.7 bits; better with an importance matrix, like all IQ",
                    kIQ3_S},
    QuantizeMixInfo{QuantizeMix::kQ3_K_S, "Q3_K_S", "about 3.5 bits; large loss", kQ3_K},
    QuantizeMixInfo{QuantizeMix::kIQ3_S, "IQ3_S", "about 3.5 bits; less loss than Q3_K_S", kIQ3_S},
    QuantizeMixInfo{QuantizeMix::kIQ3_XS, "IQ3_XS", "about 3.3 bits", kIQ3_S},
    QuantizeMixInfo{QuantizeMix::kIQ3_XXS, "IQ3_XXS", "about 3.1 bits", kIQ3_XXS},
    QuantizeMixInfo{QuantizeMix::kQ2_K, "Q2_K", "about 3 bits; very large loss", kQ2_K},
    QuantizeMixInfo{QuantizeMix::kQ2_K_S, "Q2_K_S", "about 2.8 bits; needs an importance matrix", kQ2_K, true},
    QuantizeMixInfo{QuantizeMix::kIQ2_M, "IQ2_M", "about 2.7 bits", kIQ2_S},
    QuantizeMixInfo{QuantizeMix::kIQ2_S, "IQ2_S", "about 2.5 bits; needs an importance matrix", kIQ2_XS, true},
    QuantizeMixInfo{QuantizeMix::kIQ2_XS, "IQ2_XS", "about 2.3 bits; needs an importance matrix", kIQ2_XS, true},
    QuantizeMixInfo{QuantizeMix::kIQ2_XXS, "IQ2_XXS", "about 2.1 bits; needs an importance matrix", kIQ2_XXS, true},
    QuantizeMixInfo{QuantizeMix::kTQ2_0, "TQ2_0", "2.1 bits; for models that were trained with three values", kTQ2_0},
    QuantizeMixInfo{QuantizeMix::kIQ1_M, "IQ1_M", "about 1.8 bits; needs an importance matrix", kIQ1_M, true},
    QuantizeMixInfo{QuantizeMix::kTQ1_0, "TQ1_0", "1.7 bits; for models that were trained with three values", kTQ1_0},
    QuantizeMixInfo{QuantizeMix::kIQ1_S, "IQ1_S", "about 1.6 bits; needs an importance matrix", kIQ1_S, true},
    QuantizeMixInfo{QuantizeMix::kCopy, "COPY", "every tensor keeps its type: for splitting and joining files", kF32},
};

bool is_float(TensorType type) { return type == kF32 || type == kF16 || type == kBF16; }

// ---- Rules of the mixes ----

enum class Kind { kValue, kKey, kQuery, kQkv, kAttentionOutput, kDown, kUpOrGate, kOther };

// Which of the layers that have a tensor of the kind.
enum class Layers {
  kAll,
  kOuter,  // those whose errors cost most: the first and the last eighth, and every third between
  kFirstEighth,
  kFirstSixteenth,
  kFirstTwo,
  kFirstFour,
  kInner,  // all but the first and the last eighth
};

enum class When {
  kAlways,
  kSharedKeys,      // at least four queries share a key: values are small, and errors in them cost much
  kSharedOrMoe,     // or there are at least four experts
  kEightExperts,    // what they share is small beside them
  kWithImportance,  // there is an importance matrix
  kWithout,
};

struct Rule {
  Kind kind;
  TensorType type;
  Layers layers = Layers::kAll;
  When when = When::kAlways;
};

// The first that applies counts; without one it is the mix's base.
struct MixRules {
  std::vector<QuantizeMix> mixes;
  std::vector<Rule> rules;
};

// Attention of mixtures with eight experts, whose matrices are small beside the experts'.
const Rule kValue8 = {Kind::kValue, kQ8_0, Layers::kAll, When::kEightExperts};
const Rule kKey8 = {Kind::kKey, kQ8_0, Layers::kAll, When::kEightExperts};
const Rule kOutput5 = {Kind::kAttentionOutput, kQ5_K, Layers::kAll, When::kEightExperts};

const std::vector<MixRules>& wide_rules() {
  using M = QuantizeMix;
  using enum Layers;
  using enum When;
  using enum Kind;
  static const std::vector<MixRules> rules = {
      {{M::kQ6_K}, {kValue8, kKey8}},
      {{M::kQ5_K_M}, {kValue8, kKey8, {kValue, kQ6_K, kOuter}, {kDown, kQ6_K, kOuter}, {kQkv, kQ6_K}}},
      {{M::kQ4_K_M}, {kValue8, kKey8, kOutput5, {kValue, kQ6_K, kOuter}, {kDown, kQ6_K, kOuter}, {kQkv, kQ5_K}}},
      {{M::kQ4_K_S}, {kValue8, kKey8, kOutput5, {kValue, kQ5_K, kFirstFour}, {kDown, kQ5_K, kFirstEighth}}},
      {{M::kQ5_0}, {{kDown, kQ5_1, kFirstEighth, kWithImportance}}},
      {{M::kQ4_0}, {{kDown, kQ4_1, kFirstEighth, kWithImportance}}},
      {{M::kIQ4_NL, M::kIQ4_XS},
       {kValue8, kKey8, kOutput5, {kValue, kQ5_K, kAll, kSharedKeys}, {kDown, kQ5_K, kFirstEighth, kWithout}}},
      {{M::kQ3_K_L}, {kValue8, kKey8, {kValue, kQ5_K}, {kDown, kQ5_K}, {kAttentionOutput, kQ5_K}, {kQkv, kQ4_K}}},
      {{M::kQ3_K_M},
       {kValue8,
        kKey8,
        kOutput5,
        {kValue, kQ5_K, kFirstTwo},
        {kValue, kQ4_K},
        {kDown, kQ5_K, kFirstSixteenth},
        {kDown, kQ4_K},
        {kAttentionOutput, kQ4_K},
        {kQkv, kQ4_K}}},
      {{M::kQ3_K_S}, {kValue8, kKey8, kOutput5}},
  };
  return rules;
}

const std::vector<MixRules>& narrow_rules() {
  using M = QuantizeMix;
  using enum Layers;
  using enum When;
  using enum Kind;
  static const std::vector<MixRules> rules = {
      {{M::kIQ3_M},
       {kValue8,
        kKey8,
        kOutput5,
        {kValue, kQ4_K},
        {kDown, kQ4_K, kFirstEighth},
        {kDown, kQ4_K, kOuter, kEightExperts},
        {kAttentionOutput, kQ4_K},
        {kQkv, kQ4_K}}},
      {{M::kIQ3_S}, {kValue8, kKey8, kOutput5, {kValue, kQ4_K, kAll, kSharedKeys}}},
      {{M::kIQ3_XS},
       {kValue8,
        kKey8,
        kOutput5,
        {kValue, kQ4_K, kAll, kSharedKeys},
        {kKey, kIQ3_XXS},
        {kQuery, kIQ3_XXS},
        {kUpOrGate, kIQ3_XXS, kInner}}},
      {{M::kIQ3_XXS},
       {kValue8,
        kKey8,
        kOutput5,
        {kValue, kQ4_K, kAll, kSharedKeys},
        {kValue, kIQ3_S, kAll, kWithout},
        {kKey, kIQ2_S},
        {kQuery, kIQ2_S},
        {kDown, kQ4_K, kFirstEighth, kWithout},
        {kDown, kQ3_K, kAll, kWithout},
        {kAttentionOutput, kIQ3_S}}},
      {{M::kQ2_K},
       {kValue8,
        kKey8,
        kOutput5,
        {kValue, kQ4_K, kAll, kSharedKeys},
        {kValue, kQ3_K},
        {kDown, kQ3_K},
        {kAttentionOutput, kQ3_K}}},
      {{M::kQ2_K_S}, {kValue8, kKey8, {kValue, kQ4_K, kAll, kSharedKeys}, {kDown, kQ4_K, kFirstEighth}}},
      {{M::kIQ2_S, M::kIQ2_M},
       {{kValue, kQ4_K, kAll, kSharedOrMoe},
        {kValue, kIQ3_S},
        {kKey, kQ4_K, kAll, kEightExperts},
        {kDown, kIQ3_S, kFirstEighth},
        {kAttentionOutput, kQ5_K, kAll, kEightExperts},
        {kAttentionOutput, kIQ3_S}}},
      {{M::kIQ2_XXS, M::kIQ2_XS},
       {{kValue, kQ4_K, kAll, kSharedOrMoe},
        {kValue, kQ2_K},
        {kKey, kQ4_K, kAll, kEightExperts},
        {kDown, kQ2_K, kFirstEighth},
        {kAttentionOutput, kQ5_K, kAll, kEightExperts}}},
      {{M::kIQ1_S, M::kIQ1_M},
       {{kValue, kQ4_K, kAll, kSharedOrMoe},
        {kValue, kQ2_K},
        {kKey, kQ4_K, kAll, kEightExperts},
        {kDown, kQ2_K, kFirstEighth},
        {kAttentionOutput, kQ5_K, kAll, kEightExperts},
        {kAttentionOutput, kIQ2_XXS}}},
  };
  return rules;
}

// The type of the matrix that makes logits.
TensorType output_type(QuantizeMix mix) {
  using enum QuantizeMix;
  switch (mix) {
    case kF32:
    case kBF16:
    case kF16:
    case kQ8_0:
      return quantize_mix_info(mix).base;
    case kMXFP4:
      return TensorType::kQ8_0;
    case kIQ1_S:
    case kIQ1_M:
    case kIQ2_XXS:
    case kIQ2_XS:
    case kIQ2_S:
    case kIQ2_M:
    case kIQ3_XXS:
      return TensorType::kQ5_K;
    default:
      return TensorType::kQ6_K;
  }
}

// The type of the table of tokens, where another matrix makes logits.
TensorType table_type(QuantizeMix mix) {
  using enum QuantizeMix;
  switch (mix) {
    case kIQ1_S:
    case kIQ1_M:
    case kIQ2_XXS:
    case kIQ2_XS:
      return TensorType::kQ2_K;
    case kIQ2_S:
    case kIQ2_M:
    case kIQ3_XXS:
      return TensorType::kIQ3_S;
    case kTQ1_0:
    case kTQ2_0:
      return TensorType::kQ4_K;
    case kMXFP4:
      return TensorType::kQ8_0;
    default:
      return quantize_mix_info(mix).base;
  }
}

// ---- Names of tensors ----

// Matrices that are not quantised, because their rounding costs far more than their size saves: routers, position and
// token type tables, the taps of short convolutions, the mixing weights between residual streams, and the projections
// that choose tokens or layers.
constexpr std::string_view kKeptParts[] = {
    "_norm.weight", "ffn_gate_inp", "position_embd", "token_types", "ssm_conv1d",           "shortconv.conv",
    ".hc_",         "output_hc_",   "indexer.proj",  "_ape.weight", "per_layer_model_proj",
};

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

Kind kind_of(std::string_view rest) {
  if (rest == "attn_v.weight") return Kind::kValue;
  if (rest == "attn_k.weight") return Kind::kKey;
  if (rest == "attn_q.weight") return Kind::kQuery;
  if (rest == "attn_qkv.weight") return Kind::kQkv;
  if (rest == "attn_output.weight") return Kind::kAttentionOutput;
  if (rest.starts_with("ffn_down")) return Kind::kDown;
  if (rest.starts_with("ffn_up") || rest.starts_with("ffn_gate")) return Kind::kUpOrGate;
  return Kind::kOther;
}

// The layers that have a kind of tensor, in order: a layer's index among them decides its type.
class LayerOrder {
 public:
  LayerOrder(std::span<const gguf::Tensor> tensors, Kind kind) {
    for (const gguf::Tensor& tensor : tensors) {
      const auto name = layer_name(tensor.name);
      if (name.has_value() && kind_of(name->rest) == kind) layers_.insert(name->layer);
    }
  }

  bool has(Layers which, int64_t layer) const {
    const auto count = static_cast<int64_t>(layers_.size());
    const auto place = static_cast<int64_t>(std::distance(layers_.begin(), layers_.find(layer)));
    const bool first = place < count / 8;
    const bool last = place >= 7 * count / 8;
    switch (which) {
      case Layers::kAll:
        return true;
      case Layers::kOuter:
        return first || last || (place - count / 8) % 3 == 2;
      case Layers::kFirstEighth:
        return first;
      case Layers::kFirstSixteenth:
        return place < count / 16;
      case Layers::kFirstTwo:
        return place < 2;
      case Layers::kFirstFour:
        return place < 4;
      case Layers::kInner:
        return !first && !last;
    }
    return false;
  }

 private:
  std::set<int64_t> layers_;
};

// `wanted`, or the type that a row of this length can have instead.
TensorType fitting(TensorType wanted, const gguf::Tensor& tensor) {
  if (has_whole_blocks(wanted, tensor)) return wanted;
  TensorType instead = kIQ4_NL;
  if (wanted == kQ4_K || wanted == kTQ1_0 || wanted == kTQ2_0) instead = kQ5_0;
  if (wanted == kQ5_K) instead = kQ5_1;
  if (wanted == kQ6_K || wanted == kNVFP4) instead = kQ8_0;
  if (has_whole_blocks(instead, tensor)) return instead;
  return tensor.type == kBF16 ? kBF16 : kF16;
}

Result<std::regex> pattern_of(const std::string& text) {
  try {
    return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    return fail(Code::kInvalidArgument, "'{}' is no regular expression: {}", printable(text), error.what());
  }
}

// ---- Choosing ----

class Chooser {
 public:
  Chooser(std::span<const gguf::Tensor> tensors, const ModelTraits& traits, const TypeRequest& request)
      : tensors_(tensors), traits_(traits), request_(request), info_(quantize_mix_info(request.mix)) {
    for (const Kind kind : {Kind::kValue, Kind::kDown, Kind::kUpOrGate}) orders_.emplace_back(tensors, kind);
    const bool has_output =
        std::ranges::any_of(tensors, [](const auto& tensor) { return tensor.name == "output.weight"; });
    output_ = has_output ? "output.weight" : "token_embd.weight";
    for (const auto* rules : {&wide_rules(), &narrow_rules()}) {
      for (const MixRules& each : *rules) {
        if (std::ranges::find(each.mixes, request.mix) != each.mixes.end()) rules_ = &each.rules;
      }
    }
  }

  Result<TypePlan> run() {
    TypePlan plan;
    std::vector<std::regex> patterns;
    std::vector<bool> matched(request_.rules.size());
    for (const TypeRule& rule : request_.rules) {
      CAIRN_TRY(patterns.emplace_back(), pattern_of(rule.pattern));
    }
    for (const gguf::Tensor& tensor : tensors_) {
      std::optional<TensorType> ruled;
      for (size_t i = 0; i < patterns.size() && !ruled && !keeps_type(tensor); ++i) {
        if (!std::regex_search(tensor.name.begin(), tensor.name.end(), patterns[i])) continue;
        ruled = request_.rules[i].type;
        matched[i] = true;
      }
      plan.types.push_back(type_of(tensor, ruled, plan.fallbacks));
    }
    for (size_t i = 0; i < matched.size(); ++i) {
      if (matched[i]) continue;
      return fail(Code::kInvalidArgument, "no matrix of this model has a name that '{}' matches before other patterns",
                  printable(request_.rules[i].pattern));
    }
    return plan;
  }

 private:
  TensorType type_of(const gguf::Tensor& tensor, std::optional<TensorType> ruled, int64_t& fallbacks) const {
    if (!quant::can_decode(tensor.type)) return tensor.type;
    if (request_.mix == QuantizeMix::kF32 && !ruled) return kF32;
    if (keeps_type(tensor)) {
      return is_float(tensor.type) || request_.mix == QuantizeMix::kCopy ? tensor.type : kF32;
    }
    const TensorType wanted = ruled ? *ruled : wanted_of(tensor);
    if (wanted == tensor.type) return wanted;
    TensorType type = fitting(wanted, tensor);
    const bool of_output = tensor.name == output_ && !ruled;
    if (type != wanted && of_output && has_whole_blocks(kQ8_0, tensor)) type = kQ8_0;
    fallbacks += type == wanted ? 0 : 1;
    return type;
  }

  TensorType wanted_of(const gguf::Tensor& tensor) const {
    const bool is_table = tensor.name == "token_embd.weight";
    if (is_table && request_.embedding) return *request_.embedding;
    if (tensor.name == output_) {
      if (request_.output) return *request_.output;
      if (request_.leave_output) return tensor.type;
    }
    if (request_.mix == QuantizeMix::kCopy) return tensor.type;
    if (request_.pure) return info_.base;
    if (tensor.name == output_) return output_type(request_.mix);
    if (is_table || tensor.name == "per_layer_token_embd.weight") return table_type(request_.mix);
    if (request_.mix == QuantizeMix::kMXFP4 && tensor.shape.size() < 3) return kQ8_0;
    const auto name = layer_name(tensor.name);
    return name.has_value() ? by_rules(*name) : info_.base;
  }

  TensorType by_rules(const LayerName& name) const {
    if (rules_ == nullptr) return info_.base;
    const Kind kind = kind_of(name.rest);
    for (const Rule& rule : *rules_) {
      if (rule.kind == kind && holds(rule.when) && has(rule, name.layer)) return rule.type;
    }
    return info_.base;
  }

  bool has(const Rule& rule, int64_t layer) const {
    if (rule.layers == Layers::kAll) return true;
    const size_t order = rule.kind == Kind::kValue ? 0 : rule.kind == Kind::kDown ? 1 : 2;
    return orders_[order].has(rule.layers, layer);
  }

  bool holds(When when) const {
    switch (when) {
      case When::kAlways:
        return true;
      case When::kSharedKeys:
        return traits_.queries_per_key >= 4;
      case When::kSharedOrMoe:
        return traits_.queries_per_key >= 4 || traits_.experts >= 4;
      case When::kEightExperts:
        return traits_.experts == 8;
      case When::kWithImportance:
        return request_.has_importance;
      case When::kWithout:
        return !request_.has_importance;
    }
    return false;
  }

  std::span<const gguf::Tensor> tensors_;
  const ModelTraits& traits_;
  const TypeRequest& request_;
  const QuantizeMixInfo& info_;
  std::string_view output_;  // the matrix that makes logits
  const std::vector<Rule>* rules_ = nullptr;
  std::vector<LayerOrder> orders_;  // values, down, up and gate
};

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
  if (upper == "Q3_K" || upper == "Q4_K" || upper == "Q5_K") upper += "_M";
  for (const auto& info : kMixes) {
    if (info.name == upper) return info.mix;
  }
  return std::nullopt;
}

Result<TypeRule> type_rule_of(const std::string& text) {
  const size_t at = text.rfind('=');
  const auto type = at == std::string::npos ? std::nullopt : tensor_type_named(std::string_view(text).substr(at + 1));
  if (!type.has_value() || at == 0 || !quant::can_encode(*type)) {
    return fail(Code::kInvalidArgument, "takes PATTERN=TYPE, such as 'ffn_down=Q6_K', not '{}'", printable(text));
  }
  TypeRule rule{text.substr(0, at), *type};
  CAIRN_TRY([[maybe_unused]] const std::regex pattern, pattern_of(rule.pattern));
  return rule;
}

ModelTraits ModelTraits::of(const gguf::Metadata& metadata) {
  ModelTraits traits;
  const std::string prefix(metadata.string_or("general.architecture", "").value_or(""));
  // A key with a number for each layer, or one for all.
  const auto largest = [&](const std::string& key) {
    if (const auto one = metadata.integer(prefix + key)) return *one;
    const auto all = metadata.integers(prefix + key);
    return all && !all->empty() ? *std::ranges::max_element(*all) : int64_t{0};
  };
  traits.experts = largest(".expert_count");
  const int64_t queries = largest(".attention.head_count"), keys = largest(".attention.head_count_kv");
  if (queries > 0 && keys > 0) traits.queries_per_key = queries / keys;
  return traits;
}

bool has_whole_blocks(TensorType type, const gguf::Tensor& tensor) {
  return tensor.shape[0] % tensor_type_info(type).block_elements == 0;
}

bool keeps_type(const gguf::Tensor& tensor) {
  if (!quant::can_decode(tensor.type)) return true;
  const bool one_row = tensor.elements() == tensor.shape[0];
  if (one_row || !tensor.name.ends_with(".weight")) return true;
  return std::ranges::any_of(kKeptParts, [&](std::string_view part) { return tensor.name.contains(part); });
}

Result<TypePlan> plan_types(std::span<const gguf::Tensor> tensors, const ModelTraits& traits,
                            const TypeRequest& request) {
  return Chooser(tensors, traits, request).run();
}

std::vector<TensorType> choose_types(std::span<const gguf::Tensor> tensors, QuantizeMix mix) {
  return plan_types(tensors, ModelTraits{}, {.mix = mix}).value().types;
}

std::vector<TensorType> choose_types(std::span<const gguf::Tensor> tensors, TensorType type) {
  std::vector<TensorType> types;
  for (const gguf::Tensor& tensor : tensors) {
    if (!quant::can_decode(tensor.type) || type == kF32) {
      types.push_back(quant::can_decode(tensor.type) ? kF32 : tensor.type);
    } else if (keeps_type(tensor)) {
      types.push_back(is_float(tensor.type) ? tensor.type : kF32);
    } else {
      types.push_back(fitting(type, tensor));
    }
  }
  return types;
}

}  // namespace cairn::convert
