#include "model/arch/table.h"

namespace cairn {

namespace {
constexpr Architecture kArchitectures[] = {
    {"deepseek2", read_deepseek2_config}, {"deepseek32", read_deepseek32_config}, {"gemma", read_gemma_config},
    {"gemma2", read_gemma2_config},       {"gemma3", read_gemma3_config},         {"granite", read_granite_config},
    {"granitemoe", read_granite_config},  {"llama", read_llama_config},           {"mistral3", read_mistral3_config},
    {"mistral4", read_deepseek2_config},  {"olmo2", read_olmo2_config},           {"phi3", read_phi3_config},
    {"qwen2", read_qwen2_config},         {"qwen2moe", read_qwen2moe_config},     {"qwen3", read_qwen3_config},
    {"qwen3moe", read_qwen3moe_config},   {"smollm3", read_smollm3_config},
};

constexpr EncoderArchitecture kEncoderArchitectures[] = {
    {"bert", read_bert_config}, {"jina-bert-v2", read_jina_bert_v2_config}, {"nomic-bert", read_nomic_bert_config}};
}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }
std::span<const EncoderArchitecture> encoder_architectures() { return kEncoderArchitectures; }

}  // namespace cairn
