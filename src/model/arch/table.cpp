#include "model/arch/table.h"

namespace cairn {

namespace {
constexpr Architecture kArchitectures[] = {
    {"deepseek2", describe_deepseek2}, {"deepseek32", describe_deepseek32}, {"gemma", describe_gemma},
    {"gemma2", describe_gemma2},       {"gemma3", describe_gemma3},         {"granite", describe_granite},
    {"granitemoe", describe_granite},  {"llama", describe_llama},           {"mistral3", describe_mistral3},
    {"mistral4", describe_deepseek2},  {"olmo2", describe_olmo2},           {"phi3", describe_phi3},
    {"qwen2", describe_qwen2},         {"qwen2moe", describe_qwen2moe},     {"qwen3", describe_qwen3},
    {"qwen3moe", describe_qwen3moe},   {"smollm3", describe_smollm3},
};

constexpr EncoderArchitecture kEncoderArchitectures[] = {
    {"bert", describe_bert}, {"jina-bert-v2", describe_jina_bert_v2}, {"nomic-bert", describe_nomic_bert}};
}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }
std::span<const EncoderArchitecture> encoder_architectures() { return kEncoderArchitectures; }

}  // namespace cairn
