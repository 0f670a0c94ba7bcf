// Decoders with recurrent layers of the kinds Mamba-2 and short convolution.
#include <fmt/format.h>

#include <algorithm>

#include "convert/huggingface/family.h"

namespace cairn::convert {
namespace {

constexpr int64_t kLongContext = 1 << 20;  // of models whose layers know no positions

// Sizes of Mamba-2, by any of the names that configs have for them.
struct MambaSizes {
  int64_t heads, head_length, groups, state, taps;

  int64_t inner() const { return heads * head_length; }
};
MambaSizes mamba_sizes(const Conversion& conversion) {
  const ModelConfig& config = conversion.config();
  MambaSizes sizes{};
  sizes.groups = std::max<int64_t>(1, config.integer_or({"mamba_n_groups", "n_groups"}, 1));
  sizes.state = config.integer_or({"mamba_d_state", "ssm_state_size", "state_size", "d_state"}, 128);
  sizes.taps = config.integer_or({"mamba_d_conv", "conv_kernel", "d_conv"}, 4);
  sizes.head_length = std::max<int64_t>(1, config.integer_or({"mamba_d_head", "mamba_head_dim", "head_dim"}, 64));
  const int64_t expanded = conversion.width() * config.integer_or({"mamba_expand", "expand"}, 2);
  const int64_t inner = config.integer_or({"mamba_d_ssm", "d_inner"}, expanded);
  sizes.heads = config.integer_or({"mamba_n_heads", "mamba_num_heads", "num_heads"}, inner / sizes.head_length);
  return sizes;
}

void set_mamba_keys(Conversion& conversion) {
  const MambaSizes sizes = mamba_sizes(conversion);
  conversion.set("ssm.conv_kernel", sizes.taps);
  conversion.set("ssm.inner_size", sizes.inner());
  conversion.set("ssm.state_size", sizes.state);
  conversion.set("ssm.time_step_rank", sizes.heads);
  conversion.set("ssm.group_count", sizes.groups);
}

void change_mamba_tensor(Conversion& conversion, SourceTensor& source) {
  const std::string_view part = source.part;
  if (part.ends_with("conv1d")) squeeze(source);
  if (part.ends_with("A_log")) negative_exponential(source);
  if (part.ends_with("A_log") || part.ends_with(".D")) source.shape = {source.rows->length(), 1};
  const bool norm = part == "mixer.norm" || part == "mamba.norm";
  const MambaSizes sizes = mamba_sizes(conversion);
  if (norm && source.shape.size() == 1 && source.columns() % sizes.groups == 0) {
    source.shape = {sizes.groups, source.columns() / sizes.groups};
  }
}

void set_mamba2_keys(Conversion& conversion) {
  set_mamba_keys(conversion);
  conversion.set("context_length", kLongContext);
  conversion.set("feed_forward_length", int64_t{0});
  conversion.set("attention.head_count", int64_t{0});
  for (const char* key : {"attention.key_length", "attention.value_length", "attention.layer_norm_epsilon"}) {
    conversion.erase(key);  // there is no attention
  }
  conversion.set("attention.layer_norm_rms_epsilon",
                 conversion.config().number_or({"layer_norm_epsilon", "rms_norm_eps"}, 1e-5));
}

bool change_mamba2_tensor(Conversion& conversion, SourceTensor& source) {
  change_mamba_tensor(conversion, source);
  return source.part == "lm_head" && conversion.config().boolean_or({"tie_word_embeddings"}, true);
}

// The number of heads of keys for each layer, 0 for those without attention.
std::vector<int64_t> kv_heads_where(const Conversion& conversion, const std::vector<bool>& attention) {
  std::vector<int64_t> heads;
  for (const bool has : attention) heads.push_back(has ? conversion.kv_heads() : 0);
  return heads;
}

std::vector<bool> granite_attention_layers(const Conversion& conversion) {
  if (conversion.config().has({"layer_types"})) return layers_of_type(conversion, "attention");
  std::vector<bool> attention(static_cast<size_t>(conversion.layers()), false);
  for (const int64_t layer : conversion.config().integers({"attn_layer_indices"})) {
    if (layer < conversion.layers()) attention[static_cast<size_t>(layer)] = true;
  }
  return attention;
}

std::string_view choose_granite(const ModelConfig& config) {
  const auto types = config.texts({"layer_types"});
  const bool mamba = std::ranges::any_of(types, [](const std::string& type) { return type != "attention"; });
  if (mamba || types.empty()) return "granitehybrid";
  return config.integer_or({"num_experts_per_tok"}, 0) > 0 ? "granitemoe" : "granite";
}

void set_granite_hybrid_keys(Conversion& conversion) {
  const Family& granite = granite_family();
  granite.keys(conversion);
  if (conversion.architecture() != "granitehybrid") return;
  set_mamba_keys(conversion);
  conversion.set("attention.head_count_kv", kv_heads_where(conversion, granite_attention_layers(conversion)));
  const bool bamba = conversion.config().texts({"architectures"})[0] == "BambaForCausalLM";
  conversion.set("rope.scaling.finetuned", bamba);
  if (!bamba) conversion.set("context_length", kLongContext);
}

bool change_granite_hybrid_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.part.starts_with("mamba.")) change_mamba_tensor(conversion, source);
  return granite_family().tensor(conversion, source);
}

void set_falcon_h1_keys(Conversion& conversion) {
  set_mamba_keys(conversion);
  conversion.copy_integer("vocab_size", {"vocab_size"});
}

RowsPtr times(RowsPtr rows, double factor) {
  if (factor == 1.0) return rows;
  return mapped(std::move(rows), [factor = static_cast<float>(factor)](float value) { return value * factor; });
}

// The multipliers of the config become part of the weights.
bool change_falcon_h1_tensor(Conversion& conversion, SourceTensor& source) {
  change_mamba_tensor(conversion, source);
  const ModelConfig& config = conversion.config();
  const auto multiplier = [&](std::string_view name) { return config.number_or({name}, 1.0); };
  auto mlp = config.numbers({"mlp_multipliers"});
  mlp.resize(2, 1.0);
  const std::string_view part = source.part;
  if (part == "feed_forward.gate_proj") source.rows = times(source.rows, mlp[0]);
  if (part == "feed_forward.down_proj") source.rows = times(source.rows, mlp[1]);
  if (part == "self_attn.k_proj") source.rows = times(source.rows, multiplier("key_multiplier"));
  if (part == "self_attn.q_proj" || part == "self_attn.k_proj" || part == "self_attn.v_proj")
    source.rows = times(source.rows, multiplier("attention_in_multiplier"));
  if (part == "self_attn.o_proj") source.rows = times(source.rows, multiplier("attention_out_multiplier"));
  if (part == "mamba.out_proj") source.rows = times(source.rows, multiplier("ssm_out_multiplier"));
  if (part == "lm_head") source.rows = times(source.rows, multiplier("lm_head_multiplier"));
  if (part == "embed_tokens") source.rows = times(source.rows, multiplier("embedding_multiplier"));
  if (part != "mamba.in_proj") return false;
  // Rows of the gate, the inputs, B, C and the time steps.
  const MambaSizes sizes = mamba_sizes(conversion);
  auto each = config.numbers({"ssm_multipliers"});
  each.resize(5, 1.0);
  const int64_t counts[] = {sizes.inner(), sizes.inner(), sizes.groups * sizes.state, sizes.groups * sizes.state,
                            sizes.heads};
  std::vector<RowsPtr> parts;
  int64_t row = 0;
  for (size_t i = 0; i < 5; ++i) {
    const int64_t count = std::min(counts[i], source.rows->count() - row);
    parts.push_back(times(times(slice(source.rows, row, count), multiplier("ssm_in_multiplier")), each[i]));
    row += count;
  }
  if (row != source.rows->count()) {
    config.refuse(Code::kCorruptFile, fmt::format("tensor {} has {} rows, but the sizes of the config need {}",
                                                  source.name, source.rows->count(), row));
  }
  source.rows = stacked(std::move(parts));
  return false;
}

// What each layer is: a letter of the pattern ("M" Mamba, "*" attention, "-" feed-forward, "E" experts), or a word.
std::vector<bool> nemotron_layers(const Conversion& conversion, char letter, std::string_view word) {
  const std::string pattern = conversion.config().text_or({"hybrid_override_pattern"}, "");
  const auto words = pattern.empty() ? conversion.config().texts({"layers_block_type"}) : std::vector<std::string>();
  std::vector<bool> is;
  for (size_t i = 0; i < static_cast<size_t>(conversion.layers()); ++i) {
    is.push_back(i < pattern.size() ? pattern[i] == letter : i < words.size() && words[i] == word);
  }
  return is;
}

std::string_view choose_nemotron_h(const ModelConfig& config) {
  return config.has({"num_experts_per_tok"}) ? "nemotron_h_moe" : "nemotron_h";
}

void set_nemotron_h_keys(Conversion& conversion) {
  const ModelConfig& config = conversion.config();
  set_mamba_keys(conversion);
  conversion.copy_integer("vocab_size", {"vocab_size"});
  conversion.set("context_length", kLongContext);
  conversion.set("rope.dimension_count", conversion.head_length());
  conversion.set("rope.scaling.finetuned", false);
  conversion.set("attention.key_length", config.integer({"head_dim", "attention_head_dim"}));
  conversion.set("attention.value_length", config.integer({"head_dim", "attention_head_dim"}));
  conversion.set("attention.head_count_kv", kv_heads_where(conversion, nemotron_layers(conversion, '*', "attention")));
  conversion.copy_number("attention.layer_norm_rms_epsilon", {"layer_norm_epsilon", "rms_norm_eps", "norm_eps"});
  const bool experts = conversion.architecture() == "nemotron_h_moe";
  const auto feed_forward = experts ? nemotron_layers(conversion, 'E', "moe") : nemotron_layers(conversion, '-', "mlp");
  const int64_t length = config.integer({experts ? "moe_intermediate_size" : "intermediate_size"});
  std::vector<int64_t> lengths;
  for (const bool is : feed_forward) lengths.push_back(is ? length : 0);
  conversion.set("feed_forward_length", std::move(lengths));
  if (!experts) return;
  conversion.set("expert_feed_forward_length", length);
  conversion.set("expert_shared_feed_forward_length", config.integer({"moe_shared_expert_intermediate_size"}));
  conversion.set("expert_shared_count", config.integer({"n_shared_experts"}));
  conversion.set("expert_weights_norm", config.boolean_or({"norm_topk_prob"}, true));
  conversion.set("expert_weights_scale", config.number({"routed_scaling_factor"}));
  conversion.copy_integer("moe_latent_size", {"moe_latent_size"});
}

bool change_nemotron_h_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.part.starts_with("mtp.")) return true;
  change_mamba_tensor(conversion, source);
  // Nothing is turned, so that any order within heads would do; files and adapters in use have this one.
  if (source.part == "mixer.q_proj") interleave_heads(source, conversion.heads());
  if (source.part == "mixer.k_proj") interleave_heads(source, conversion.kv_heads());
  return false;
}

void set_lfm2_keys(Conversion& conversion) {
  const ModelConfig& config = conversion.config();
  conversion.copy_integer("vocab_size", {"vocab_size"});
  conversion.set("shortconv.l_cache", config.integer({"conv_L_cache"}));
  std::vector<bool> attention = layers_of_type(conversion, "full_attention");
  if (!config.has({"layer_types"})) {
    for (const int64_t layer : config.integers({"full_attn_idxs"})) {
      if (layer < conversion.layers()) attention[static_cast<size_t>(layer)] = true;
    }
  }
  conversion.set("attention.head_count_kv", kv_heads_where(conversion, attention));
  if (conversion.architecture() == "lfm2moe") {
    conversion.set("expert_feed_forward_length", config.integer({"moe_intermediate_size"}));
    conversion.set("leading_dense_block_count", config.integer({"num_dense_layers"}));
    conversion.set("expert_gating_func", int64_t{2});  // sigmoid
    return;
  }
  int64_t length = config.integer({"block_ff_dim", "intermediate_size"});
  if (config.boolean_or({"block_auto_adjust_ff_dim"}, false)) {
    length =
        static_cast<int64_t>(config.number_or({"block_ffn_dim_multiplier"}, 1.0) * static_cast<double>(2 * length / 3));
    const int64_t multiple = std::max<int64_t>(1, config.integer_or({"block_multiple_of"}, 1));
    length = (length + multiple - 1) / multiple * multiple;
  }
  conversion.set("feed_forward_length", length);
}

bool change_lfm2_tensor(Conversion& /*conversion*/, SourceTensor& source) {
  if (source.part == "conv.conv") squeeze(source);
  return false;
}

constexpr std::string_view kMamba2Classes[] = {"Mamba2ForCausalLM"};
constexpr std::string_view kGraniteHybridClasses[] = {"GraniteMoeHybridForCausalLM", "BambaForCausalLM"};
constexpr std::string_view kFalconH1Classes[] = {"FalconH1ForCausalLM"};
constexpr std::string_view kNemotronHClasses[] = {"NemotronHForCausalLM"};
constexpr std::string_view kLfm2Classes[] = {"Lfm2ForCausalLM", "LFM2ForCausalLM"};
constexpr std::string_view kLfm2MoeClasses[] = {"Lfm2MoeForCausalLM"};

constexpr NameRow kMixerNames[] = {
    {"mixer.in_proj", "ssm_in"},
    {"mixer.conv1d", "ssm_conv1d"},
    {"mixer.A_log", "ssm_a."},
    {"mixer.D", "ssm_d."},
    {"mixer.dt_bias", "ssm_dt.bias."},
    {"mixer.norm", "ssm_norm"},
    {"mixer.out_proj", "ssm_out"},
    {"mixer.q_proj", "attn_q"},
    {"mixer.k_proj", "attn_k"},
    {"mixer.v_proj", "attn_v"},
    {"mixer.o_proj", "attn_output"},
    {"mixer.up_proj", "ffn_up"},
    {"mixer.down_proj", "ffn_down"},
    {"mixer.gate", "ffn_gate_inp"},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias."},
    {"mixer.experts.@.up_proj", "ffn_up_exps"},
    {"mixer.experts.@.down_proj", "ffn_down_exps"},
    {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
    {"mixer.shared_experts.down_proj", "ffn_down_shexp"},
    {"mixer.fc1_latent_proj", "ffn_latent_down"},
    {"mixer.fc2_latent_proj", "ffn_latent_up"},
};
constexpr NameRow kGraniteHybridNames[] = {{"block_sparse_moe.output_linear", "ffn_down_exps"}};
constexpr NameRow kFalconH1Names[] = {{"pre_ff_layernorm", "ffn_norm."}};

constexpr Family kRecurrentFamilies[] = {
    {.classes = kMamba2Classes,
     .architecture = "mamba2",
     .keys = set_mamba2_keys,
     .tensor = change_mamba2_tensor,
     .names = kMixerNames},
    {.classes = kGraniteHybridClasses,
     .architecture = "granitehybrid",
     .keys = set_granite_hybrid_keys,
     .tensor = change_granite_hybrid_tensor,
     .names = kGraniteHybridNames,
     .choose = choose_granite},
    {.classes = kFalconH1Classes,
     .architecture = "falcon-h1",
     .keys = set_falcon_h1_keys,
     .tensor = change_falcon_h1_tensor,
     .names = kFalconH1Names,
     .pre_tokenizer = "falcon-h1"},
    {.classes = kNemotronHClasses,
     .architecture = "nemotron_h",
     .keys = set_nemotron_h_keys,
     .tensor = change_nemotron_h_tensor,
     .names = kMixerNames,
     .choose = choose_nemotron_h},
    {.classes = kLfm2Classes,
     .architecture = "lfm2",
     .keys = set_lfm2_keys,
     .tensor = change_lfm2_tensor,
     .pre_tokenizer = "lfm2"},
    {.classes = kLfm2MoeClasses,
     .architecture = "lfm2moe",
     .keys = set_lfm2_keys,
     .tensor = change_lfm2_tensor,
     .pre_tokenizer = "lfm2"},
};

}  // namespace

std::span<const Family> recurrent_families() { return kRecurrentFamilies; }

}  // namespace cairn::convert
