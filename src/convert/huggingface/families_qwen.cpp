// Qwen, and models with gated delta nets.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "convert/huggingface/family.h"

namespace cairn::convert {
namespace {

void set_qwen_keys(Conversion& conversion) {
  conversion.copy_integer("expert_feed_forward_length", {"moe_intermediate_size"});
  conversion.copy_integer("expert_shared_feed_forward_length", {"shared_expert_intermediate_size"});
  set_pooling(conversion);
}

bool change_qwen_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.part == "mlp.experts.gate_up_proj") {
    add_gate_and_up(conversion, source, "ffn_gate_exps.weight", "ffn_up_exps.weight");
    return true;
  }
  if (source.part == "mlp.experts.down_proj") {
    conversion.add(source, "ffn_down_exps.weight");
    return true;
  }
  return false;
}

int64_t count_mtp_layers(const Conversion& conversion) {
  int64_t count = 0;
  for (const auto& [name, tensor] : conversion.checkpoint().tensors()) {
    if (!name.starts_with("mtp.") && !name.starts_with("model.mtp.")) continue;
    count = std::max<int64_t>(count, 1);
    const std::string_view rest = std::string_view(name).substr(name.find("mtp.") + 4);
    if (rest.starts_with("layers.")) count = std::max(count, parse_tensor_name(rest).layer + 1);
  }
  return count;
}

// mtp.layers.0.X is layer N of N layers, and what mixes its inputs belongs to it.
std::string rename_mtp_tensor(const Conversion& conversion, std::string_view name) {
  const size_t at = name.find("mtp.");
  if (at == std::string_view::npos || (at != 0 && name.substr(0, at) != "model.")) return {};
  const std::string_view rest = name.substr(at + 4);
  if (rest.starts_with("layers.")) {
    const int64_t layer = parse_tensor_name(rest).layer;
    const std::string_view after = rest.substr(rest.find('.', 7) + 1);
    return fmt::format("layers.{}.{}", conversion.layers() + layer, after);
  }
  constexpr NameRow kInputs[] = {{"fc.weight", "eh_proj.weight"},
                                 {"pre_fc_norm_embedding.weight", "enorm.weight"},
                                 {"pre_fc_norm_hidden.weight", "hnorm.weight"},
                                 {"norm.weight", "shared_head.norm.weight"}};
  const auto* found = std::ranges::find(kInputs, rest, &NameRow::part);
  if (found == std::end(kInputs)) return {};
  return fmt::format("layers.{}.{}", conversion.layers(), found->name);
}

void set_delta_net_keys(Conversion& conversion) {
  set_qwen_keys(conversion);
  const ModelConfig& config = conversion.config();
  conversion.set("ssm.conv_kernel", config.integer({"linear_conv_kernel_dim"}));
  conversion.set("ssm.state_size", config.integer({"linear_key_head_dim"}));
  conversion.set("ssm.group_count", config.integer({"linear_num_key_heads"}));
  conversion.set("ssm.time_step_rank", config.integer({"linear_num_value_heads"}));
  conversion.set("ssm.inner_size",
                 config.integer({"linear_value_head_dim"}) * config.integer({"linear_num_value_heads"}));
  conversion.set("full_attention_interval", config.integer_or({"full_attention_interval"}, 4));
  conversion.set("rope.dimension_count", conversion.turned(0.25));
  if (conversion.next_layers() > 0) conversion.set("nextn_predict_layers", conversion.next_layers());
  if (conversion.architecture() != "qwen3next" && !conversion.rope().full.has({"mrope_section"})) {
    conversion.set("rope.dimension_sections", std::vector<int64_t>{11, 11, 10, 0});
  }
}

// What all delta nets have: norms less one, and the logarithm of the decay.
void change_delta_net_values(SourceTensor& source) {
  if (source.part == "linear_attn.A_log") negative_exponential(source);
  if (source.part == "linear_attn.conv1d") squeeze(source);
  const bool norm = source.part.ends_with("norm") && source.part != "linear_attn.norm";
  if (norm && source.suffix == ".weight") add_one(source);
}

// Sizes of the heads of delta nets.
struct DeltaHeads {
  int64_t key_heads, values_per_key, key_length, value_length;

  int64_t keys() const { return key_heads * key_length; }
};
DeltaHeads delta_heads(const ModelConfig& config) {
  const int64_t key_heads = std::max<int64_t>(1, config.integer({"linear_num_key_heads"}));
  return {key_heads, config.integer({"linear_num_value_heads"}) / key_heads, config.integer({"linear_key_head_dim"}),
          config.integer({"linear_value_head_dim"})};
}

// Values of `first` and then of heads of `length`, which the checkpoint has grouped by the key head that they share:
// here, head h shares key head h mod key_heads.
std::vector<int64_t> tiled(const DeltaHeads& heads, int64_t first, int64_t length) {
  std::vector<int64_t> index(static_cast<size_t>(first));
  std::iota(index.begin(), index.end(), 0);
  for (int64_t value = 0; value < heads.values_per_key; ++value) {
    for (int64_t key = 0; key < heads.key_heads; ++key) {
      for (int64_t i = 0; i < length; ++i) index.push_back(first + (key * heads.values_per_key + value) * length + i);
    }
  }
  return index;
}

// Whether the tensor has as many rows (or elements) as the index; if not, the config does not fit it.
bool fits(const Conversion& conversion, const SourceTensor& source, int64_t has, size_t needs) {
  if (has == static_cast<int64_t>(needs)) return true;
  conversion.config().refuse(Code::kCorruptFile, fmt::format("tensor {} has {} rows or columns, but the heads of the "
                                                             "config need {}",
                                                             source.name, has, needs));
  return false;
}

bool change_qwen35_tensor(Conversion& conversion, SourceTensor& source) {
  change_delta_net_values(source);
  const DeltaHeads heads = delta_heads(conversion.config());
  if (heads.values_per_key > 1 && source.part.starts_with("linear_attn.") && source.part != "linear_attn.norm") {
    const bool channels = source.part == "linear_attn.in_proj_qkv" || source.part == "linear_attn.conv1d";
    const bool wide = channels || source.part == "linear_attn.in_proj_z" || source.part == "linear_attn.out_proj";
    auto index = tiled(heads, channels ? 2 * heads.keys() : 0, wide ? heads.value_length : 1);
    const bool columns = source.part == "linear_attn.out_proj" || source.shape.size() == 1;
    if (!fits(conversion, source, columns ? source.columns() : source.rows->count(), index.size())) return true;
    source.rows = columns ? gathered(source.rows, std::move(index)) : selected(source.rows, std::move(index));
  }
  return change_qwen_tensor(conversion, source);
}

// The projection of queries, keys, values and gates has them grouped by key head.
void add_grouped_projection(Conversion& conversion, const SourceTensor& source) {
  const DeltaHeads heads = delta_heads(conversion.config());
  const int64_t values = heads.values_per_key * heads.value_length, group = 2 * heads.key_length + 2 * values;
  if (!fits(conversion, source, source.rows->count(), static_cast<size_t>(group * heads.key_heads))) return;
  std::vector<int64_t> projected, gates;
  const auto take = [&](std::vector<int64_t>& rows, int64_t first, int64_t count) {
    for (int64_t head = 0; head < heads.key_heads; ++head) {
      for (int64_t i = 0; i < count; ++i) rows.push_back(head * group + first + i);
    }
  };
  take(projected, 0, heads.key_length);
  take(projected, heads.key_length, heads.key_length);
  take(projected, 2 * heads.key_length, values);
  take(gates, 2 * heads.key_length + values, values);
  const auto projected_rows = static_cast<int64_t>(projected.size()), gate_rows = static_cast<int64_t>(gates.size());
  conversion.add(source, "attn_qkv.weight", selected(source.rows, std::move(projected)), projected_rows);
  conversion.add(source, "attn_gate.weight", selected(source.rows, std::move(gates)), gate_rows);
}

bool change_qwen3next_tensor(Conversion& conversion, SourceTensor& source) {
  change_delta_net_values(source);
  if (source.part == "linear_attn.in_proj_qkvz") {
    add_grouped_projection(conversion, source);
    return true;
  }
  return change_qwen_tensor(conversion, source);
}

constexpr std::string_view kQwen2Classes[] = {"Qwen2ForCausalLM", "Qwen2Model"};
constexpr std::string_view kQwen2MoeClasses[] = {"Qwen2MoeForCausalLM"};
constexpr std::string_view kQwen3Classes[] = {"Qwen3ForCausalLM", "Qwen3Model"};
constexpr std::string_view kQwen3MoeClasses[] = {"Qwen3MoeForCausalLM"};
constexpr std::string_view kQwen3NextClasses[] = {"Qwen3NextForCausalLM"};
constexpr std::string_view kQwen35Classes[] = {"Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"};
constexpr std::string_view kQwen35MoeClasses[] = {"Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"};

constexpr NameRow kDeltaNetNames[] = {{"post_attention_layernorm", "post_attention_norm"}};

constexpr Family kQwenFamilies[] = {
    {.classes = kQwen2Classes, .architecture = "qwen2", .keys = set_qwen_keys, .pre_tokenizer = "qwen2"},
    {.classes = kQwen2MoeClasses,
     .architecture = "qwen2moe",
     .keys = set_qwen_keys,
     .tensor = change_qwen_tensor,
     .pre_tokenizer = "qwen2"},
    {.classes = kQwen3Classes, .architecture = "qwen3", .keys = set_qwen_keys, .pre_tokenizer = "qwen2"},
    {.classes = kQwen3MoeClasses,
     .architecture = "qwen3moe",
     .keys = set_qwen_keys,
     .tensor = change_qwen_tensor,
     .pre_tokenizer = "qwen2"},
    {.classes = kQwen3NextClasses,
     .architecture = "qwen3next",
     .keys = set_delta_net_keys,
     .tensor = change_qwen3next_tensor,
     .names = kDeltaNetNames,
     .pre_tokenizer = "qwen2",
     .next_layers = count_mtp_layers,
     .rename = rename_mtp_tensor},
    {.classes = kQwen35Classes,
     .architecture = "qwen35",
     .keys = set_delta_net_keys,
     .tensor = change_qwen35_tensor,
     .names = kDeltaNetNames,
     .pre_tokenizer = "qwen35",
     .next_layers = count_mtp_layers,
     .rename = rename_mtp_tensor},
    {.classes = kQwen35MoeClasses,
     .architecture = "qwen35moe",
     .keys = set_delta_net_keys,
     .tensor = change_qwen35_tensor,
     .names = kDeltaNetNames,
     .pre_tokenizer = "qwen35",
     .next_layers = count_mtp_layers,
     .rename = rename_mtp_tensor},
};

}  // namespace

std::span<const Family> qwen_families() { return kQwenFamilies; }

}  // namespace cairn::convert
