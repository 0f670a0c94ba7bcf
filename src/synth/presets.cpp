// Presets. Numbers of real shapes are those of the published models' configurations.
#include "synth/presets.h"

namespace cairn::synth {
namespace {

using Setting = std::pair<std::string_view, std::string_view>;

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

constexpr Setting kV41Flash[] = {
    {"context_length", "1048576"},
    {"embedding_length", "5120"},
    {"block_count", "40"},
    {"vocab_size", "129280"},
    {"attention.head_count", "64"},
    {"attention.key_length", "512"},
    {"attention.q_lora_rank", "1280"},
    {"attention.output_lora_rank", "1024"},
    {"attention.output_group_count", "8"},
    {"attention.indexer.head_count", "32"},
    {"attention.indexer.top_k", "512"},
    {"attention.indexer.candidate_blocks", "2048"},
    {"rope.scaling.factor", "16"},
    {"rope.scaling.original_context_length", "65536"},
    {"rope.scaling.yarn_beta_fast", "32"},
    {"rope.scaling.yarn_beta_slow", "1"},
    {"expert_count", "384"},
    {"expert_used_count", "6"},
    {"expert_feed_forward_length", "2304"},
    {"engram.head_count", "8"},
    {"engram.primes", "16000000"},
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

// Types as in the published two-bit files of V4.1, whose router is wider and whose drafting head has four bits.
constexpr Setting kTwoBitExperts41[] = {
    {"^token_embd\\.", "F16"},  {"hc_.*fn\\.", "F16"}, {"_compressor_", "F16"},           {"indexer\\.", "F16"},
    {"ffn_gate_inp", "F32"},    {"engram_wkv", "F16"}, {"ffn_(gate|up)_exps", "IQ2_XXS"}, {"ffn_down_exps", "Q2_K"},
    {"^mtp\\..*_exps", "Q4_K"},
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
    {{"v4.1-flash", "deepseek41",
      "748 G parameters, 197 G of them in tables, the shape of DeepSeek V4.1 Flash; two-bit experts"},
     kV41Flash,
     false,
     "Q8_0",
     kTwoBitExperts41},
};

}  // namespace

std::span<const Preset> preset_table() { return kPresets; }

}  // namespace cairn::synth
