// Architectures: their keys, and the numbers of their small shapes.
#include <algorithm>
#include <array>

#include "synth/presets.h"

namespace cairn::synth {
namespace {

using enum gguf::ValueType;

template <size_t M, size_t N>
consteval std::array<KeyDefault, M + N> joined(const std::array<KeyDefault, M>& a, const std::array<KeyDefault, N>& b) {
  std::array<KeyDefault, M + N> both{};
  std::ranges::copy(b, std::ranges::copy(a, both.begin()).out);
  return both;
}

// Defaults of the small shapes: 256 wide, so that rows are whole blocks of every type.
constexpr std::array kGroupedAttention = std::to_array<KeyDefault>({
    {"context_length", kU32, "2048"},
    {"embedding_length", kU32, "256"},
    {"block_count", kU32, "2"},
    {"feed_forward_length", kU32, "512"},
    {"vocab_size", kU32, "512"},
    {"attention.head_count", kU32, "4"},
    {"attention.head_count_kv", kU32, "2"},
    {"attention.key_length", kU32, "64"},
    {"attention.value_length", kU32, ""},
    {"rope.dimension_count", kU32, ""},
});

constexpr std::array kLlama = joined(kGroupedAttention, std::to_array<KeyDefault>({
                                                            {"rope.freq_base", kF32, "500000"},
                                                            {"attention.layer_norm_rms_epsilon", kF32, "1e-5"},
                                                            {"expert_count", kU32, ""},
                                                            {"expert_used_count", kU32, ""},
                                                        }));

constexpr std::array kQwen3 = joined(kGroupedAttention, std::to_array<KeyDefault>({
                                                            {"rope.freq_base", kF32, "1000000"},
                                                            {"attention.layer_norm_rms_epsilon", kF32, "1e-6"},
                                                        }));

constexpr std::array kQwen3Moe = joined(kQwen3, std::to_array<KeyDefault>({
                                                    {"expert_count", kU32, "8"},
                                                    {"expert_used_count", kU32, "2"},
                                                    {"expert_feed_forward_length", kU32, "256"},
                                                }));

constexpr std::array kQwen35 = joined(kQwen3, std::to_array<KeyDefault>({
                                                  {"rope.dimension_sections", kU32, "11,11,10,0", true},
                                                  {"full_attention_interval", kU32, "4"},
                                                  {"ssm.conv_kernel", kU32, "4"},
                                                  {"ssm.state_size", kU32, "64"},
                                                  {"ssm.group_count", kU32, "2"},
                                                  {"ssm.time_step_rank", kU32, "4"},
                                                  {"ssm.inner_size", kU32, "256"},
                                              }));

constexpr std::array kQwen35Moe = joined(kQwen35, std::to_array<KeyDefault>({
                                                      {"expert_count", kU32, "8"},
                                                      {"expert_used_count", kU32, "2"},
                                                      {"expert_feed_forward_length", kU32, "256"},
                                                      {"expert_shared_feed_forward_length", kU32, "256"},
                                                  }));

constexpr KeyDefault kLfm2Moe[] = {
    {"context_length", kU32, "2048"},
    {"embedding_length", kU32, "256"},
    {"block_count", kU32, "4"},
    {"leading_dense_block_count", kU32, "2"},
    {"feed_forward_length", kU32, "512"},
    {"vocab_size", kU32, "512"},
    {"attention.head_count", kU32, "4"},
    {"attention.head_count_kv", kU32, "", true},
    {"shortconv.l_cache", kU32, "3"},
    {"rope.freq_base", kF32, "1000000"},
    {"attention.layer_norm_rms_epsilon", kF32, "1e-5"},
    {"expert_count", kU32, "8"},
    {"expert_used_count", kU32, "2"},
    {"expert_feed_forward_length", kU32, "256"},
    {"expert_gating_func", kU32, "2"},
};

constexpr std::array kGptOss = joined(kGroupedAttention, std::to_array<KeyDefault>({
                                                             {"attention.sliding_window", kU32, "128"},
                                                             {"rope.freq_base", kF32, "150000"},
                                                             {"rope.scaling.factor", kF32, "32"},
                                                             {"rope.scaling.original_context_length", kU32, "64"},
                                                             {"attention.layer_norm_rms_epsilon", kF32, "1e-5"},
                                                             {"expert_count", kU32, "8"},
                                                             {"expert_used_count", kU32, "2"},
                                                             {"expert_feed_forward_length", kU32, "256"},
                                                         }));

constexpr KeyDefault kGemma4[] = {
    {"context_length", kU32, "2048"},
    {"embedding_length", kU32, "256"},
    {"block_count", kU32, "6"},
    {"feed_forward_length", kU32, "512"},
    {"vocab_size", kU32, "512"},
    {"attention.head_count", kU32, "4"},
    {"attention.head_count_kv", kU32, "2", true},
    {"attention.key_length", kU32, "128"},
    {"attention.value_length", kU32, ""},
    {"attention.key_length_swa", kU32, "64"},
    {"attention.value_length_swa", kU32, ""},
    {"attention.sliding_window", kU32, "512"},
    {"attention.sliding_window_pattern", kBool, "", true},
    {"attention.shared_kv_layers", kU32, ""},
    {"attention.layer_norm_rms_epsilon", kF32, "1e-6"},
    {"rope.dimension_count", kU32, ""},
    {"rope.dimension_count_swa", kU32, ""},
    {"rope.freq_base", kF32, "1000000"},
    {"rope.freq_base_swa", kF32, "10000"},
    {"final_logit_softcapping", kF32, "30"},
    {"embedding_length_per_layer_input", kU32, "0"},
    {"expert_count", kU32, ""},
    {"expert_used_count", kU32, ""},
    {"expert_feed_forward_length", kU32, ""},
};

constexpr KeyDefault kNemotronHMoe[] = {
    {"context_length", kU32, "2048"},
    {"embedding_length", kU32, "256"},
    {"block_count", kU32, "6"},
    {"feed_forward_length", kU32, "", true},
    {"vocab_size", kU32, "512"},
    {"attention.head_count", kU32, "4"},
    {"attention.head_count_kv", kU32, "", true},
    {"attention.key_length", kU32, "64"},
    {"attention.value_length", kU32, ""},
    {"attention.layer_norm_rms_epsilon", kF32, "1e-5"},
    {"attention.layer_norm_epsilon", kF32, "1e-5"},
    {"rope.dimension_count", kU32, ""},
    {"rope.scaling.finetuned", kBool, "true"},
    {"ssm.conv_kernel", kU32, "4"},
    {"ssm.state_size", kU32, "64"},
    {"ssm.group_count", kU32, "2"},
    {"ssm.time_step_rank", kU32, "4"},
    {"ssm.inner_size", kU32, "512"},
    {"expert_count", kU32, "8"},
    {"expert_used_count", kU32, "2"},
    {"expert_group_count", kU32, "1"},
    {"expert_group_used_count", kU32, "1"},
    {"expert_feed_forward_length", kU32, "256"},
    {"expert_shared_count", kU32, "1"},
    {"expert_shared_feed_forward_length", kU32, "512"},
    {"expert_weights_norm", kBool, "true"},
    {"expert_weights_scale", kF32, "2.5"},
};

constexpr KeyDefault kDeepseek2[] = {
    {"context_length", kU32, "2048"},
    {"embedding_length", kU32, "256"},
    {"block_count", kU32, "3"},
    {"leading_dense_block_count", kU32, "1"},
    {"feed_forward_length", kU32, "512"},
    {"vocab_size", kU32, "512"},
    {"attention.head_count", kU32, "4"},
    {"attention.head_count_kv", kU32, "1"},
    {"attention.q_lora_rank", kU32, ""},
    {"attention.kv_lora_rank", kU32, "256"},
    {"attention.key_length", kU32, ""},
    {"attention.value_length", kU32, ""},
    {"attention.key_length_mla", kU32, "96"},
    {"attention.value_length_mla", kU32, "64"},
    {"rope.dimension_count", kU32, "32"},
    {"rope.freq_base", kF32, "10000"},
    {"rope.scaling.factor", kF32, ""},
    {"rope.scaling.original_context_length", kU32, ""},
    {"rope.scaling.yarn_log_multiplier", kF32, ""},
    {"attention.layer_norm_rms_epsilon", kF32, "1e-6"},
    {"expert_count", kU32, "8"},
    {"expert_used_count", kU32, "3"},
    {"expert_shared_count", kU32, "1"},
    {"expert_feed_forward_length", kU32, "256"},
    {"expert_group_count", kU32, ""},
    {"expert_group_used_count", kU32, ""},
    {"expert_gating_func", kU32, "2"},
    {"expert_weights_norm", kBool, "true"},
    {"expert_weights_scale", kF32, "2.5"},
};

constexpr KeyDefault kKimiLinear[] = {
    {"context_length", kU32, "2048"},
    {"embedding_length", kU32, "256"},
    {"block_count", kU32, "4"},
    {"leading_dense_block_count", kU32, "1"},
    {"feed_forward_length", kU32, "512"},
    {"vocab_size", kU32, "512"},
    {"attention.head_count", kU32, "4"},
    {"attention.head_count_kv", kU32, "", true},
    {"attention.kv_lora_rank", kU32, "256"},
    {"attention.key_length", kU32, ""},
    {"attention.key_length_mla", kU32, "96"},
    {"attention.value_length_mla", kU32, "64"},
    {"rope.dimension_count", kU32, "32"},
    {"ssm.conv_kernel", kU32, "4"},
    {"kda.head_dim", kU32, "64"},
    {"attention.layer_norm_rms_epsilon", kF32, "1e-5"},
    {"expert_count", kU32, "8"},
    {"expert_used_count", kU32, "3"},
    {"expert_shared_count", kU32, "1"},
    {"expert_feed_forward_length", kU32, "256"},
    {"expert_gating_func", kU32, "2"},
    {"expert_weights_scale", kF32, "2.446"},
};

// What V4 and V4.1 have in common.
constexpr std::array kDeepseek4Family = std::to_array<KeyDefault>({
    {"context_length", kU32, "4096"},
    {"embedding_length", kU32, "256"},
    {"vocab_size", kU32, "512"},
    {"attention.head_count", kU32, "4"},
    {"attention.head_count_kv", kU32, "1"},
    {"attention.key_length", kU32, "128"},
    {"attention.value_length", kU32, ""},
    {"attention.q_lora_rank", kU32, "256"},
    {"attention.output_lora_rank", kU32, "128"},
    {"attention.output_group_count", kU32, "2"},
    {"attention.sliding_window", kU32, "128"},
    {"attention.compress_ratios", kU32, "", true},
    {"attention.compress_rope_freq_base", kF32, "160000"},
    {"attention.indexer.head_count", kU32, "4"},
    {"attention.indexer.key_length", kU32, "128"},
    {"rope.dimension_count", kU32, "64"},
    {"rope.freq_base", kF32, "10000"},
    {"rope.scaling.factor", kF32, ""},
    {"rope.scaling.original_context_length", kU32, ""},
    {"rope.scaling.yarn_beta_fast", kF32, ""},
    {"rope.scaling.yarn_beta_slow", kF32, ""},
    {"expert_count", kU32, "8"},
    {"expert_used_count", kU32, "2"},
    {"expert_shared_count", kU32, "1"},
    {"expert_feed_forward_length", kU32, "256"},
    {"expert_gating_func", kU32, "4"},
    {"expert_weights_norm", kBool, "true"},
    {"expert_weights_scale", kF32, "1.5"},
    {"swiglu_clamp_exp", kF32, "", true},
    {"hyper_connection.count", kU32, "4"},
    {"hyper_connection.epsilon", kF32, "1e-6"},
    {"hyper_connection.sinkhorn_iterations", kU32, "20"},
});

constexpr std::array kDeepseek4 = joined(kDeepseek4Family, std::to_array<KeyDefault>({
                                                               {"block_count", kU32, "4"},
                                                               {"attention.indexer.top_k", kU32, "64"},
                                                               {"attention.layer_norm_rms_epsilon", kF32, "1e-6"},
                                                               {"hash_layer_count", kU32, ""},
                                                               {"nextn_predict_layers", kU32, ""},
                                                           }));

// The drafting head is left out without a number of stages.
constexpr std::array kDeepseek41 = joined(kDeepseek4Family, std::to_array<KeyDefault>({
                                                                {"block_count", kU32, "8"},
                                                                {"attention.indexer.top_k", kU32, "16"},
                                                                {"attention.indexer.candidate_blocks", kU32, "4"},
                                                                {"attention.indexer.candidate_block_size", kU32, "8"},
                                                                {"attention.layer_norm_rms_epsilon", kF32, "1e-20"},
                                                                {"kv_source_layer_ids", kU32, "", true},
                                                                {"index_source_layer_ids", kU32, "", true},
                                                                {"engram.layer_ids", kU32, "", true},
                                                                {"engram.head_count", kU32, "2"},
                                                                {"engram.key_length", kU32, "256"},
                                                                {"engram.max_ngram_size", kU32, "4"},
                                                                {"engram.compressed_vocab_size", kU32, ""},
                                                                {"engram.pad_id", kU32, "2"},
                                                                {"engram.token_map", kU32, "", true},
                                                                {"engram.primes", kU64, "256", true},
                                                                {"engram.offsets", kU64, "", true},
                                                                {"engram.multipliers", kU64, "", true},
                                                                {"dspark.stage_count", kU32, ""},
                                                                {"dspark.block_size", kU32, ""},
                                                                {"dspark.markov_rank", kU32, ""},
                                                                {"dspark.noise_token_id", kU32, ""},
                                                                {"dspark.target_layer_ids", kU32, "", true},
                                                                {"dspark.n_routed_experts", kU32, ""},
                                                                {"dspark.num_experts_per_tok", kU32, ""},
                                                            }));

// Routers' biases are left out where the scores are a softmax (expert_gating_func).
constexpr std::string_view kRouterBias = "exp_probs_b.bias";

constexpr Architecture kArchitectures[] = {
    {"llama", kLlama},
    {"qwen3", kQwen3, true},
    {"qwen3moe", kQwen3Moe},
    {"qwen35", kQwen35},
    {"qwen35moe", kQwen35Moe},
    {"lfm2moe", kLfm2Moe, true, kRouterBias, complete_lfm2},
    {"nemotron_h_moe", kNemotronHMoe, false, "exp_probs_b.bias ssm_conv1d.bias", complete_nemotron_h},
    {"kimi-linear", kKimiLinear, false, "exp_probs_b.bias ssm_conv1d_q.weight ssm_conv1d_k.weight ssm_conv1d_v.weight",
     complete_kimi_linear},
    {"deepseek2", kDeepseek2, false, kRouterBias, complete_mla},
    {"deepseek4", kDeepseek4, false,
     "exp_probs_b.bias nextn.enorm.weight nextn.shared_head_norm.weight nextn.hc_head_fn.weight", complete_deepseek4,
     check_deepseek4},
    {"deepseek41", kDeepseek41, false, "attn_q_a.weight engram_wkv.weight engram_q.weight engram_k.weight",
     complete_deepseek41, check_deepseek41, add_known_deepseek41},
    {"gemma4", kGemma4, true, "ffn_gate_up_exps.weight ffn_down_exps.scale", complete_gemma4, nullptr, add_known_gemma4,
     true},
    {"gpt-oss", kGptOss, false,
     "attn_q.bias attn_k.bias attn_v.bias attn_output.bias ffn_gate_inp.bias ffn_gate_exps.bias ffn_up_exps.bias "
     "ffn_down_exps.bias"},
};

}  // namespace

std::span<const Architecture> architecture_table() { return kArchitectures; }

}  // namespace cairn::synth
