#include "model/arch/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text/printable.h"
#include "model/deepseek4/config.h"

namespace cairn {
namespace {

constexpr Architecture decoder(std::string_view name, ReadDecoderConfig read) {
  return {.name = name, .kind = ArchitectureKind::kDecoder, .read_decoder = read};
}

constexpr Architecture hybrid(std::string_view name, ReadDecoderConfig read) {
  return {.name = name, .kind = ArchitectureKind::kDecoder, .read_decoder = read, .hybrid = true};
}

constexpr Architecture encoder(std::string_view name, ReadEncoderConfig read) {
  return {.name = name, .kind = ArchitectureKind::kEncoder, .read_encoder = read};
}

constexpr Architecture kArchitectures[] = {
    encoder("bert", read_bert_config),
    decoder("cohere2", read_cohere2_config),
    decoder("command-r", read_command_r_config),
    decoder("deepseek2", read_deepseek2_config),
    decoder("deepseek32", read_deepseek32_config),
    {.name = deepseek4::kArchitecture, .kind = ArchitectureKind::kDeepSeek4},
    {.name = deepseek4::kArchitecture41, .kind = ArchitectureKind::kDeepSeek4},
    decoder("ernie4_5", read_ernie4_5_config),
    decoder("ernie4_5-moe", read_ernie4_5_moe_config),
    encoder("eurobert", read_eurobert_config),
    decoder("exaone4", read_exaone4_config),
    decoder("falcon", read_falcon_config),
    hybrid("falcon-h1", read_falcon_h1_config),
    decoder("gemma", read_gemma_config),
    encoder("gemma-embedding", read_gemma_embedding_config),
    decoder("gemma2", read_gemma2_config),
    decoder("gemma3", read_gemma3_config),
    decoder("gemma4", read_gemma4_config),
    decoder("glm4", read_glm4_config),
    decoder("glm4moe", read_glm4moe_config),
    decoder("gpt-oss", read_gpt_oss_config),
    decoder("gpt2", read_gpt2_config),
    decoder("granite", read_granite_config),
    hybrid("granitehybrid", read_granite_hybrid_config),
    decoder("granitemoe", read_granite_config),
    decoder("hunyuan-dense", read_hunyuan_dense_config),
    encoder("jina-bert-v2", read_jina_bert_v2_config),
    encoder("jina-bert-v3", read_jina_bert_v3_config),
    hybrid("lfm2", read_lfm2_config),
    hybrid("lfm2moe", read_lfm2_config),
    decoder("llama", read_llama_config),
    decoder("llama4", read_llama4_config),
    hybrid("mamba2", read_mamba2_config),
    decoder("minimax-m2", read_minimax_m2_config),
    decoder("mistral3", read_mistral3_config),
    decoder("mistral4", read_deepseek2_config),
    encoder("modern-bert", read_modern_bert_config),
    decoder("nemotron", read_nemotron_config),
    hybrid("nemotron_h", read_nemotron_h_config),
    hybrid("nemotron_h_moe", read_nemotron_h_config),
    encoder("nomic-bert", read_nomic_bert_config),
    encoder("nomic-bert-moe", read_nomic_bert_moe_config),
    decoder("olmo2", read_olmo2_config),
    decoder("olmoe", read_olmoe_config),
    decoder("phi3", read_phi3_config),
    decoder("qwen2", read_qwen2_config),
    decoder("qwen2moe", read_qwen2moe_config),
    decoder("qwen3", read_qwen3_config),
    hybrid("qwen35", read_qwen35_config),
    hybrid("qwen35moe", read_qwen35_config),
    decoder("qwen3moe", read_qwen3moe_config),
    hybrid("qwen3next", read_qwen3next_config),
    decoder("seed_oss", read_seed_oss_config),
    decoder("smollm3", read_smollm3_config),
    decoder("stablelm", read_stablelm_config),
    decoder("starcoder2", read_starcoder2_config),
};

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

Result<const Architecture*> architecture_of(const gguf::Reader& file) {
  CAIRN_TRY(const std::string_view name, file.metadata().string("general.architecture"));
  const auto* const found = std::ranges::find(kArchitectures, name, &Architecture::name);
  if (found != std::end(kArchitectures)) return found;
  std::string known;
  for (const Architecture& each : kArchitectures) known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
  return fail(Code::kUnsupported, "architecture \"{}\" is not supported; these are: {}", printable(name), known);
}

}  // namespace cairn
