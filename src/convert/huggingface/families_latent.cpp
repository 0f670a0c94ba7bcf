// Models with latent attention (MLA): DeepSeek, GLM-4.7 Flash, GLM-5, Kimi.
#include <fmt/format.h>

#include <algorithm>

#include "convert/huggingface/family.h"

namespace cairn::convert {
namespace {

// Attention runs over the latent rows themselves, so that there is one head of keys, as wide as these.
void set_latent_keys(Conversion& conversion) {
  const ModelConfig& config = conversion.config();
  const int64_t latent = config.integer_or({"kv_lora_rank"}, 512), turned = config.integer({"qk_rope_head_dim"});
  conversion.set("attention.head_count_kv", int64_t{1});
  conversion.copy_integer("attention.q_lora_rank", {"q_lora_rank"});
  conversion.set("attention.kv_lora_rank", latent);
  conversion.set("attention.key_length", latent + turned);
  conversion.set("attention.value_length", latent);
  conversion.set("attention.key_length_mla", config.integer({"qk_nope_head_dim"}) + turned);
  conversion.set("attention.value_length_mla", config.integer({"v_head_dim"}));
  conversion.set("rope.dimension_count", turned);
}

void set_deepseek2_keys(Conversion& conversion) {
  const ModelConfig& config = conversion.config();
  set_latent_keys(conversion);
  conversion.set("attention.layer_norm_rms_epsilon", config.number_or({"rms_norm_eps"}, 1e-6));
  const bool experts = config.has({"n_routed_experts"});
  conversion.set("leading_dense_block_count",
                 config.integer_or({"first_k_dense_replace"}, experts ? 0 : conversion.layers()));
  conversion.copy_integer("vocab_size", {"vocab_size"});
  conversion.set("expert_feed_forward_length", config.integer({"moe_intermediate_size", "intermediate_size"}));
  conversion.set("expert_shared_count", config.integer_or({"n_shared_experts"}, 0));
  conversion.copy_number("expert_weights_scale", {"routed_scaling_factor"});
  if (config.boolean_or({"norm_topk_prob"}, false)) conversion.set("expert_weights_norm", true);
  const ModelConfig& rope = conversion.rope().full;
  // Readers expect a tenth of the published factor here, since the first converted files had it.
  if (rope.has({"mscale_all_dim"}))
    conversion.set("rope.scaling.yarn_log_multiplier", 0.1 * rope.number({"mscale_all_dim"}));
  if (conversion.next_layers() > 0) conversion.set("nextn_predict_layers", conversion.next_layers());
}

void set_indexer_keys(Conversion& conversion) {
  set_deepseek2_keys(conversion);
  const ModelConfig& config = conversion.config();
  conversion.set("attention.indexer.head_count", config.integer({"index_n_heads"}));
  conversion.set("attention.indexer.key_length", config.integer({"index_head_dim"}));
  conversion.set("attention.indexer.top_k", config.integer({"index_topk"}));
  const auto types = config.texts({"indexer_types"});
  if (types.empty()) return;
  std::vector<bool> full;
  for (const std::string& type : types) full.push_back(type == "full");
  conversion.set("attention.indexer.types", std::move(full));
}

// kv_b_proj has, for each head, the rows that make keys and those that make values. Keys' are turned, because they are
// applied to queries.
void add_latent_projection(Conversion& conversion, const SourceTensor& source) {
  const int64_t keys = conversion.config().integer({"qk_nope_head_dim"}),
                values = conversion.config().integer({"v_head_dim"}), heads = conversion.heads();
  if (keys < 1 || values < 1 || source.rows->count() != heads * (keys + values)) {
    conversion.config().refuse(Code::kCorruptFile,
                               fmt::format("tensor {} has {} rows, but {} heads need {}", source.name,
                                           source.rows->count(), heads, heads * (keys + values)));
    return;
  }
  std::vector<int64_t> key_rows, value_rows;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < keys; ++i) key_rows.push_back(head * (keys + values) + i);
    for (int64_t i = 0; i < values; ++i) value_rows.push_back(head * (keys + values) + keys + i);
  }
  conversion.add(source, "attn_k_b.weight", transposed(selected(source.rows, std::move(key_rows)), keys),
                 source.columns());
  conversion.add(source, "attn_v_b.weight", selected(source.rows, std::move(value_rows)), values);
}

bool change_latent_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.layer >= conversion.layers() + conversion.next_layers()) return true;  // it is not run
  if (source.part == "self_attn.kv_b_proj") {
    add_latent_projection(conversion, source);
    return true;
  }
  return source.part == "lm_head" && conversion.config().boolean_or({"tie_word_embeddings"}, false);
}

// Layers behind the others that the checkpoint has.
int64_t count_next_layers(const Conversion& conversion) {
  int64_t most = conversion.layers();
  for (const auto& [name, tensor] : conversion.checkpoint().tensors()) {
    most = std::max(most, parse_tensor_name(name).layer + 1);
  }
  return std::min(most - conversion.layers(), conversion.config().integer_or({"num_nextn_predict_layers"}, 0));
}

void set_deepseek4_keys(Conversion& conversion) {
  const ModelConfig& config = conversion.config();
  conversion.set("rope.dimension_count", config.integer({"qk_rope_head_dim"}));
  conversion.set("attention.q_lora_rank", config.integer({"q_lora_rank"}));
  conversion.set("attention.sliding_window", config.integer({"sliding_window"}));
  conversion.set("expert_feed_forward_length", config.integer({"moe_intermediate_size"}));
  conversion.set("expert_shared_count", config.integer({"n_shared_experts"}));
  conversion.set("expert_weights_scale", config.number({"routed_scaling_factor"}));
  conversion.set("expert_weights_norm", config.boolean_or({"norm_topk_prob"}, true));
  const std::vector<double> limits(static_cast<size_t>(conversion.layers()), config.number({"swiglu_limit"}));
  conversion.set("swiglu_clamp_exp", limits);
  conversion.set("swiglu_clamp_shexp", limits);
  conversion.set("attention.indexer.head_count", config.integer({"index_n_heads"}));
  conversion.set("attention.indexer.key_length", config.integer({"index_head_dim"}));
  conversion.set("attention.indexer.top_k", config.integer({"index_topk"}));
  conversion.set("attention.output_group_count", config.integer({"o_groups"}));
  conversion.set("attention.output_lora_rank", config.integer({"o_lora_rank"}));
  conversion.set("attention.compress_ratios", config.integers({"compress_ratios"}));
  conversion.set("attention.compress_rope_freq_base", config.number({"compress_rope_theta"}));
  conversion.set("hyper_connection.count", config.integer({"hc_mult"}));
  conversion.set("hyper_connection.sinkhorn_iterations", config.integer({"hc_sinkhorn_iters"}));
  conversion.set("hyper_connection.epsilon", config.number({"hc_eps"}));
  conversion.set("hash_layer_count", config.integer({"num_hash_layers"}));
  conversion.set("embedding_length_out", conversion.width() * config.integer({"hc_mult"}));
}

bool change_deepseek4_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.part == "ffn.gate") {
    conversion.add(source, source.suffix == ".bias" ? "exp_probs_b.bias" : "ffn_gate_inp.weight");
    return true;
  }
  if (source.part.starts_with("mtp.")) return true;
  if (source.part == "ffn.gate.tid2eid") {
    source.rows =
        stored_integers(conversion.checkpoint(), *conversion.checkpoint().find(source.name), source.columns());
  }
  return false;
}

void set_kimi_linear_keys(Conversion& conversion) {
  const ModelConfig& config = conversion.config();
  set_latent_keys(conversion);
  conversion.copy_integer("vocab_size", {"vocab_size"});
  const ModelConfig linear = config.object({"linear_attn_config"});
  std::vector<int64_t> heads(static_cast<size_t>(conversion.layers()), 0);
  for (const int64_t layer : linear.integers({"full_attn_layers"})) {  // counted from 1
    if (layer >= 1 && layer <= conversion.layers()) heads[static_cast<size_t>(layer - 1)] = 1;
  }
  conversion.set("attention.head_count_kv", std::move(heads));
  conversion.set("ssm.conv_kernel", linear.integer({"short_conv_kernel_size"}));
  conversion.set("kda.head_dim", linear.integer({"head_dim"}));
  conversion.set("expert_feed_forward_length", config.integer({"moe_intermediate_size"}));
  conversion.set("expert_shared_count", config.integer({"num_shared_experts"}));
  conversion.set("leading_dense_block_count", config.integer({"first_k_dense_replace"}));
  conversion.set("expert_weights_scale", config.number({"routed_scaling_factor"}));
}

bool change_kimi_linear_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.part == "self_attn.A_log") negative_exponential(source);
  if (source.part.ends_with("_conv1d")) source.shape = {1, source.shape[0], 1, source.columns()};
  return change_latent_tensor(conversion, source);
}

constexpr std::string_view kDeepseek2Classes[] = {"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM",
                                                  "KimiVLForConditionalGeneration", "KimiK25ForConditionalGeneration"};
constexpr std::string_view kGlmLiteClasses[] = {"Glm4MoeLiteForCausalLM"};
constexpr std::string_view kDeepseek32Classes[] = {"DeepseekV32ForCausalLM"};
constexpr std::string_view kGlmDsaClasses[] = {"GlmMoeDsaForCausalLM"};
constexpr std::string_view kDeepseek4Classes[] = {"DeepseekV4ForCausalLM"};
constexpr std::string_view kKimiLinearClasses[] = {"KimiLinearForCausalLM"};

constexpr NameRow kDeepseek4Names[] = {
    {"hc_head_fn", "output_hc_fn"},
    {"hc_head_base", "output_hc_base"},
    {"hc_head_scale", "output_hc_scale"},
    {"hc_attn_fn", "hc_attn_fn"},
    {"hc_attn_base", "hc_attn_base"},
    {"hc_attn_scale", "hc_attn_scale"},
    {"hc_ffn_fn", "hc_ffn_fn"},
    {"hc_ffn_base", "hc_ffn_base"},
    {"hc_ffn_scale", "hc_ffn_scale"},
    {"attn.attn_sink", "attn_sinks"},
    {"attn.wq_a", "attn_q_a"},
    {"attn.wq_b", "attn_q_b"},
    {"attn.q_norm", "attn_q_a_norm"},
    {"attn.wkv", "attn_kv"},
    {"attn.kv_norm", "attn_kv_a_norm"},
    {"attn.wo_a", "attn_output_a"},
    {"attn.wo_b", "attn_output_b"},
    {"attn.compressor.ape", "attn_compressor_ape"},
    {"attn.compressor.wkv", "attn_compressor_kv"},
    {"attn.compressor.wgate", "attn_compressor_gate"},
    {"attn.compressor.norm", "attn_compressor_norm"},
    {"attn.indexer.wq_b", "indexer.attn_q_b"},
    {"attn.indexer.weights_proj", "indexer.proj"},
    {"attn.indexer.compressor.ape", "indexer_compressor_ape"},
    {"attn.indexer.compressor.wkv", "indexer_compressor_kv"},
    {"attn.indexer.compressor.wgate", "indexer_compressor_gate"},
    {"attn.indexer.compressor.norm", "indexer_compressor_norm"},
    {"ffn.gate.tid2eid", "ffn_gate_tid2eid"},
    {"ffn.experts.@.w1", "ffn_gate_exps"},
    {"ffn.experts.@.w2", "ffn_down_exps"},
    {"ffn.experts.@.w3", "ffn_up_exps"},
    {"ffn.shared_experts.w1", "ffn_gate_shexp"},
    {"ffn.shared_experts.w2", "ffn_down_shexp"},
    {"ffn.shared_experts.w3", "ffn_up_shexp"},
};

constexpr NameRow kKimiLinearNames[] = {
    {"self_attn.q_conv1d", "ssm_conv1d_q"}, {"self_attn.k_conv1d", "ssm_conv1d_k"},
    {"self_attn.v_conv1d", "ssm_conv1d_v"}, {"self_attn.f_a_proj", "ssm_f_a"},
    {"self_attn.f_b_proj", "ssm_f_b"},      {"self_attn.b_proj", "ssm_beta"},
    {"self_attn.g_a_proj", "ssm_g_a"},      {"self_attn.g_b_proj", "ssm_g_b"},
    {"self_attn.A_log", "ssm_a."},          {"self_attn.dt_bias", "ssm_dt.bias."},
    {"self_attn.o_norm", "ssm_norm"},
};

constexpr Family kLatentFamilies[] = {
    {.classes = kDeepseek2Classes,
     .architecture = "deepseek2",
     .keys = set_deepseek2_keys,
     .tensor = change_latent_tensor,
     .pre_tokenizer = "deepseek-v3"},
    {.classes = kGlmLiteClasses,
     .architecture = "deepseek2",
     .keys = set_deepseek2_keys,
     .tensor = change_latent_tensor,
     .pre_tokenizer = "glm4",
     .next_layers = count_next_layers},
    {.classes = kDeepseek32Classes,
     .architecture = "deepseek32",
     .keys = set_indexer_keys,
     .tensor = change_latent_tensor,
     .pre_tokenizer = "deepseek-v3",
     .next_layers = count_next_layers},
    {.classes = kGlmDsaClasses,
     .architecture = "glm-dsa",
     .keys = set_indexer_keys,
     .tensor = change_latent_tensor,
     .pre_tokenizer = "glm4",
     .next_layers = count_next_layers},
    {.classes = kDeepseek4Classes,
     .architecture = "deepseek4",
     .keys = set_deepseek4_keys,
     .tensor = change_deepseek4_tensor,
     .names = kDeepseek4Names,
     .pre_tokenizer = "deepseek-v3"},
    {.classes = kKimiLinearClasses,
     .architecture = "kimi-linear",
     .keys = set_kimi_linear_keys,
     .tensor = change_kimi_linear_tensor,
     .names = kKimiLinearNames,
     .pre_tokenizer = "kimi-k2"},
};

}  // namespace

std::span<const Family> latent_families() { return kLatentFamilies; }

}  // namespace cairn::convert
