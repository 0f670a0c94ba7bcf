// Architectures and presets. Numbers of real shapes are those of the published models' configurations.
#include "synth/presets.h"

#include <algorithm>
#include <array>

namespace cairn::synth {
namespace {

using enum gguf::ValueType;
using Setting = std::pair<std::string_view, std::string_view>;

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
    {"attention.head_count_kv", kU32, ""},
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

constexpr KeyDefault kDeepseek4[] = {
    {"context_length", kU32, "4096"},
    {"embedding_length", kU32, "256"},
    {"block_count", kU32, "4"},
    {"vocab_size", kU32, "512"},
    {"attention.head_count", kU32, "4"},
    {"attention.head_count_kv", kU32, ""},
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
    {"attention.indexer.top_k", kU32, "64"},
    {"attention.layer_norm_rms_epsilon", kF32, "1e-6"},
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
    {"hash_layer_count", kU32, ""},
    {"nextn_predict_layers", kU32, ""},
    {"hyper_connection.count", kU32, "4"},
    {"hyper_connection.epsilon", kF32, "1e-6"},
    {"hyper_connection.sinkhorn_iterations", kU32, "20"},
};

constexpr Setting kLlama1B[] = {
    {"context_length", "131072"},    {"embedding_length", "2048"},     {"block_count", "16"},
    {"attention.head_count", "32"},  {"attention.head_count_kv", "8"}, {"attention.key_length", "64"},
    {"feed_forward_length", "8192"}, {"vocab_size", "128256"},
};

constexpr Setting kLlama8B[] = {
    {"context_length", "131072"},     {"embedding_length", "4096"},     {"block_count", "32"},
    {"attention.head_count", "32"},   {"attention.head_count_kv", "8"}, {"attention.key_length", "128"},
    {"feed_forward_length", "14336"}, {"vocab_size", "128256"},
};

constexpr Setting kQwen3Small[] = {
    {"context_length", "40960"},     {"embedding_length", "1024"},     {"block_count", "28"},
    {"attention.head_count", "16"},  {"attention.head_count_kv", "8"}, {"attention.key_length", "128"},
    {"feed_forward_length", "3072"}, {"vocab_size", "151936"},
};

constexpr Setting kMoeSmall[] = {
    {"context_length", "40960"},     {"embedding_length", "1024"},     {"block_count", "16"},
    {"attention.head_count", "16"},  {"attention.head_count_kv", "4"}, {"attention.key_length", "64"},
    {"expert_count", "32"},          {"expert_used_count", "4"},       {"expert_feed_forward_length", "384"},
    {"feed_forward_length", "1536"}, {"vocab_size", "151936"},
};

constexpr Setting kQwen359B[] = {
    {"context_length", "262144"},     {"embedding_length", "4096"},    {"block_count", "32"},
    {"feed_forward_length", "12288"}, {"vocab_size", "248320"},        {"attention.head_count", "16"},
    {"attention.head_count_kv", "4"}, {"attention.key_length", "256"}, {"rope.dimension_count", "64"},
    {"rope.freq_base", "10000000"},   {"ssm.state_size", "128"},       {"ssm.group_count", "16"},
    {"ssm.time_step_rank", "32"},     {"ssm.inner_size", "4096"},
};

constexpr Setting kQwen35A3B[] = {
    {"context_length", "262144"},
    {"embedding_length", "2048"},
    {"block_count", "40"},
    {"feed_forward_length", "512"},
    {"vocab_size", "248320"},
    {"attention.head_count", "16"},
    {"attention.head_count_kv", "2"},
    {"attention.key_length", "256"},
    {"rope.dimension_count", "64"},
    {"rope.freq_base", "10000000"},
    {"ssm.state_size", "128"},
    {"ssm.group_count", "16"},
    {"ssm.time_step_rank", "32"},
    {"ssm.inner_size", "4096"},
    {"expert_count", "256"},
    {"expert_used_count", "8"},
    {"expert_feed_forward_length", "512"},
    {"expert_shared_feed_forward_length", "512"},
};

constexpr Setting kLfm28B[] = {
    {"context_length", "128000"},
    {"embedding_length", "2048"},
    {"block_count", "24"},
    {"leading_dense_block_count", "2"},
    {"feed_forward_length", "7168"},
    {"vocab_size", "65536"},
    {"attention.head_count", "32"},
    {"attention.head_count_kv", "0,0,8,0,0,0,8,0,0,0,8,0,0,0,8,0,0,0,8,0,0,8,0,0"},
    {"expert_count", "32"},
    {"expert_used_count", "4"},
    {"expert_feed_forward_length", "1792"},
};

// Layers of Mamba 2 and of experts in turns, and six with attention.
constexpr Setting kNemotron3Nano[] = {
    {"context_length", "1048576"},
    {"embedding_length", "2688"},
    {"block_count", "52"},
    {"feed_forward_length",
     "0,1856,0,1856,0,0,1856,0,1856,0,1856,0,0,1856,0,1856,0,1856,0,0,1856,0,1856,0,1856,0,0,"
     "1856,0,1856,0,1856,0,0,1856,0,1856,0,1856,0,1856,0,0,1856,0,1856,0,1856,0,1856,0,1856"},
    {"vocab_size", "131072"},
    {"attention.head_count", "32"},
    {"attention.head_count_kv",
     "0,0,0,0,0,2,0,0,0,0,0,0,2,0,0,0,0,0,0,2,0,0,0,0,0,0,2,0,0,0,0,0,0,2,0,0,0,0,0,0,0,0,2,0,0,"
     "0,0,0,0,0,0,0"},
    {"attention.key_length", "128"},
    {"ssm.state_size", "128"},
    {"ssm.group_count", "8"},
    {"ssm.time_step_rank", "64"},
    {"ssm.inner_size", "4096"},
    {"expert_count", "128"},
    {"expert_used_count", "6"},
    {"expert_feed_forward_length", "1856"},
    {"expert_shared_feed_forward_length", "3712"},
};

constexpr Setting kV2Lite[] = {
    {"context_length", "163840"},
    {"embedding_length", "2048"},
    {"block_count", "27"},
    {"feed_forward_length", "10944"},
    {"vocab_size", "102400"},
    {"attention.head_count", "16"},
    {"attention.kv_lora_rank", "512"},
    {"attention.key_length_mla", "192"},
    {"attention.value_length_mla", "128"},
    {"rope.dimension_count", "64"},
    {"rope.scaling.factor", "40"},
    {"rope.scaling.original_context_length", "4096"},
    {"rope.scaling.yarn_log_multiplier", "0.0707"},
    {"expert_count", "64"},
    {"expert_used_count", "6"},
    {"expert_shared_count", "2"},
    {"expert_feed_forward_length", "1408"},
    {"expert_gating_func", "1"},
    {"expert_weights_norm", "false"},
    {"expert_weights_scale", "1"},
};

// Layers 4, 8, ... and the last have attention.
constexpr Setting kKimiLinear48B[] = {
    {"context_length", "1048576"},
    {"embedding_length", "2304"},
    {"block_count", "27"},
    {"feed_forward_length", "9216"},
    {"vocab_size", "163840"},
    {"attention.head_count", "32"},
    {"attention.head_count_kv", "0,0,0,1,0,0,0,1,0,0,0,1,0,0,0,1,0,0,0,1,0,0,0,1,0,0,1"},
    {"attention.kv_lora_rank", "512"},
    {"attention.key_length_mla", "192"},
    {"attention.value_length_mla", "128"},
    {"rope.dimension_count", "64"},
    {"kda.head_dim", "128"},
    {"expert_count", "256"},
    {"expert_used_count", "8"},
    {"expert_feed_forward_length", "1024"},
};

constexpr Setting kV3[] = {
    {"context_length", "163840"},
    {"embedding_length", "7168"},
    {"block_count", "61"},
    {"leading_dense_block_count", "3"},
    {"feed_forward_length", "18432"},
    {"vocab_size", "129280"},
    {"attention.head_count", "128"},
    {"attention.q_lora_rank", "1536"},
    {"attention.kv_lora_rank", "512"},
    {"attention.key_length_mla", "192"},
    {"attention.value_length_mla", "128"},
    {"rope.dimension_count", "64"},
    {"rope.scaling.factor", "40"},
    {"rope.scaling.original_context_length", "4096"},
    {"rope.scaling.yarn_log_multiplier", "0.1"},
    {"expert_count", "256"},
    {"expert_used_count", "8"},
    {"expert_feed_forward_length", "2048"},
    {"expert_group_count", "8"},
    {"expert_group_used_count", "4"},
};

constexpr Setting kFlash[] = {
    {"context_length", "1048576"},
    {"embedding_length", "4096"},
    {"block_count", "43"},
    {"vocab_size", "129280"},
    {"attention.head_count", "64"},
    {"attention.key_length", "512"},
    {"attention.q_lora_rank", "1024"},
    {"attention.output_lora_rank", "1024"},
    {"attention.output_group_count", "8"},
    {"attention.indexer.head_count", "64"},
    {"attention.indexer.top_k", "512"},
    {"rope.scaling.factor", "16"},
    {"rope.scaling.original_context_length", "65536"},
    {"rope.scaling.yarn_beta_fast", "32"},
    {"rope.scaling.yarn_beta_slow", "1"},
    {"expert_count", "256"},
    {"expert_used_count", "6"},
    {"expert_feed_forward_length", "2048"},
};

constexpr Setting kPro[] = {
    {"context_length", "1048576"},
    {"embedding_length", "7168"},
    {"block_count", "61"},
    {"vocab_size", "129280"},
    {"attention.head_count", "128"},
    {"attention.key_length", "512"},
    {"attention.q_lora_rank", "1536"},
    {"attention.output_lora_rank", "1024"},
    {"attention.output_group_count", "16"},
    {"attention.indexer.head_count", "64"},
    {"attention.indexer.top_k", "1024"},
    {"rope.scaling.factor", "16"},
    {"rope.scaling.original_context_length", "65536"},
    {"rope.scaling.yarn_beta_fast", "32"},
    {"rope.scaling.yarn_beta_slow", "1"},
    {"expert_count", "384"},
    {"expert_used_count", "6"},
    {"expert_feed_forward_length", "3072"},
    {"expert_weights_scale", "2.5"},
};

constexpr Setting kGptOss20B[] = {
    {"context_length", "131072"},     {"embedding_length", "2880"},   {"block_count", "24"},
    {"feed_forward_length", "2880"},  {"vocab_size", "201088"},       {"attention.head_count", "64"},
    {"attention.head_count_kv", "8"}, {"attention.key_length", "64"}, {"rope.scaling.original_context_length", "4096"},
    {"expert_count", "32"},           {"expert_used_count", "4"},     {"expert_feed_forward_length", "2880"},
};

constexpr Setting kGemma4E4B[] = {
    {"context_length", "131072"},
    {"embedding_length", "2560"},
    {"block_count", "42"},
    {"feed_forward_length", "10240"},
    {"vocab_size", "262144"},
    {"attention.head_count", "8"},
    {"attention.head_count_kv", "2"},
    {"attention.key_length", "512"},
    {"attention.key_length_swa", "256"},
    {"attention.shared_kv_layers", "18"},
    {"embedding_length_per_layer_input", "256"},
};

constexpr Setting kGemma4A4B[] = {
    {"context_length", "262144"},          {"embedding_length", "2816"},    {"block_count", "30"},
    {"feed_forward_length", "2112"},       {"vocab_size", "262144"},        {"attention.head_count", "16"},
    {"attention.head_count_kv", "8,2"},    {"attention.key_length", "512"}, {"attention.key_length_swa", "256"},
    {"attention.sliding_window", "1024"},  {"expert_count", "128"},         {"expert_used_count", "8"},
    {"expert_feed_forward_length", "704"},
};

// Types as in the published files of gpt-oss.
constexpr Setting kFourBitExperts[] = {{"ffn_(gate|up|down)_exps", "MXFP4"}, {"ffn_gate_inp", "F32"}};

// Types as in the published two-bit files of V4: routed experts small, the rest wide.
constexpr Setting kTwoBitExperts[] = {
    {"^token_embd\\.", "F16"}, {"hc_.*fn\\.", "F16"},   {"_compressor_", "F16"},
    {"indexer\\.", "F16"},     {"ffn_gate_inp", "F16"}, {"ffn_(gate|up)_exps", "IQ2_XXS"},
    {"ffn_down_exps", "Q2_K"},
};

constexpr Architecture kArchitectures[] = {
    {"deepseek2", kDeepseek2},
    {"deepseek4", kDeepseek4},
    {"gemma4", kGemma4, true},
    {"gpt-oss", kGptOss},
    {"llama", kLlama},
    {"qwen3", kQwen3, true},
    {"qwen3moe", kQwen3Moe},
    {"qwen35", kQwen35},
    {"qwen35moe", kQwen35Moe},
    {"lfm2moe", kLfm2Moe, true},
    {"nemotron_h_moe", kNemotronHMoe},
    {"kimi-linear", kKimiLinear},
};

constexpr Preset kPresets[] = {
    {{"llama-1b", "llama", "1.24 G parameters, the shape of Llama 3.2 1B"}, kLlama1B, true},
    {{"llama-8b", "llama", "8.03 G parameters, the shape of Llama 3.1 8B"}, kLlama8B},
    {{"qwen3-0.6b", "qwen3", "0.60 G parameters"}, kQwen3Small, true},
    {{"moe-0.8b", "qwen3moe", "0.80 G parameters, 32 experts of which 4 are used"}, kMoeSmall, true},
    {{"qwen3.5-9b", "qwen35", "9.0 G parameters, the shape of Qwen 3.5 9B"}, kQwen359B},
    {{"qwen3.5-35b-a3b", "qwen35moe", "35 G parameters, the shape of Qwen 3.5 35B-A3B"}, kQwen35A3B},
    {{"lfm2-8b-a1b", "lfm2moe", "8.3 G parameters, the shape of LFM2 8B-A1B"}, kLfm28B, true},
    {{"nemotron-3-nano", "nemotron_h_moe", "31.6 G parameters, the shape of Nemotron 3 Nano 30B-A3B"}, kNemotron3Nano},
    {{"gpt-oss-20b", "gpt-oss", "20.9 G parameters, the shape of gpt-oss 20B; four-bit experts"},
     kGptOss20B,
     false,
     "Q8_0",
     kFourBitExperts},
    {{"gemma4-e4b", "gemma4", "7.5 G parameters, 2.8 G of them in a table, the shape of Gemma 4 E4B"},
     kGemma4E4B,
     true},
    {{"gemma4-26b-a4b", "gemma4", "25 G parameters, the shape of Gemma 4 26B-A4B"}, kGemma4A4B, true},
    {{"v2-lite", "deepseek2", "15.7 G parameters, the shape of DeepSeek V2 Lite"}, kV2Lite},
    {{"kimi-linear-48b", "kimi-linear", "49 G parameters, the shape of Kimi Linear 48B-A3B"}, kKimiLinear48B},
    {{"v3", "deepseek2", "671 G parameters, the shape of DeepSeek V3 and R1"}, kV3},
    {{"flash", "deepseek4", "284 G parameters, the shape of DeepSeek V4 Flash; two-bit experts"},
     kFlash,
     false,
     "Q8_0",
     kTwoBitExperts},
    {{"pro", "deepseek4", "1.6 T parameters, the shape of DeepSeek V4 Pro; two-bit experts"},
     kPro,
     false,
     "Q8_0",
     kTwoBitExperts,
     128},
};

}  // namespace

std::span<const Architecture> architecture_table() { return kArchitectures; }
std::span<const Preset> preset_table() { return kPresets; }

}  // namespace cairn::synth
