#include "model/arch/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text/printable.h"

namespace cairn::model {
namespace {

constexpr Architecture decoder(std::string_view name, std::string_view families, ReadDecoderConfig read) {
  return {.name = name, .families = families, .kind = ArchitectureKind::kDecoder, .read_decoder = read};
}

constexpr Architecture hybrid(std::string_view name, std::string_view families, ReadDecoderConfig read) {
  return {.name = name, .families = families, .kind = ArchitectureKind::kDecoder, .read_decoder = read, .hybrid = true};
}

constexpr Architecture assistant(std::string_view name, std::string_view families, ReadDecoderConfig read) {
  return {.name = name, .families = families, .kind = ArchitectureKind::kAssistant, .read_decoder = read};
}

constexpr Architecture encoder(std::string_view name, std::string_view families, ReadEncoderConfig read) {
  return {.name = name, .families = families, .kind = ArchitectureKind::kEncoder, .read_encoder = read};
}

constexpr Architecture kArchitectures[] = {
    encoder("bert", "BERT, DistilBERT, RoBERTa, XLM-RoBERTa: BGE, E5, MiniLM, and rerankers of them", read_bert_config),
    decoder("cohere2", "Command R7B, Command A", read_cohere2_config),
    decoder("command-r", "Command R, Command R+, Aya", read_command_r_config),
    decoder("deepseek2", "DeepSeek V2, V3, R1, Kimi K2, GLM-4.7 Flash", read_deepseek2_config),
    decoder("deepseek32", "DeepSeek V3.2", read_deepseek32_config),
    {.name = "deepseek4", .families = "DeepSeek V4", .read_whole = read_deepseek4_config},
    {.name = "deepseek41", .families = "DeepSeek V4.1", .read_whole = read_deepseek4_config},
    decoder("ernie4_5", "ERNIE 4.5 dense", read_ernie4_5_config),
    decoder("ernie4_5-moe", "ERNIE 4.5 with experts", read_ernie4_5_moe_config),
    encoder("eurobert", "EuroBERT", read_eurobert_config),
    decoder("exaone4", "EXAONE 4.0", read_exaone4_config),
    decoder("falcon", "Falcon 7B, 40B", read_falcon_config),
    hybrid("falcon-h1", "Falcon-H1", read_falcon_h1_config),
    decoder("gemma", "Gemma 1", read_gemma_config),
    encoder("gemma-embedding", "EmbeddingGemma", read_gemma_embedding_config),
    decoder("gemma2", "Gemma 2", read_gemma2_config),
    decoder("gemma3", "Gemma 3", read_gemma3_config),
    decoder("gemma4", "Gemma 4", read_gemma4_config),
    assistant("gemma4-assistant", "assistants of Gemma 4", read_gemma4_assistant_config),
    decoder("glm-dsa", "GLM-5, 5.1, 5.2", read_glm_dsa_config),
    decoder("glm4", "GLM-4-0414, GLM-Z1", read_glm4_config),
    decoder("glm4moe", "GLM-4.5, 4.6, 4.7", read_glm4moe_config),
    decoder("gpt-oss", "gpt-oss 20B, 120B", read_gpt_oss_config),
    decoder("gpt2", "GPT-2", read_gpt2_config),
    decoder("granite", "Granite 3, 4 dense", read_granite_config),
    hybrid("granitehybrid", "Granite 4.0 H", read_granite_hybrid_config),
    decoder("granitemoe", "Granite 3, 4 with experts", read_granite_config),
    decoder("hunyuan-dense", "Hunyuan dense", read_hunyuan_dense_config),
    encoder("jina-bert-v2", "Jina Embeddings v2", read_jina_bert_v2_config),
    encoder("jina-bert-v3", "Jina Embeddings v3, without adapters", read_jina_bert_v3_config),
    hybrid("kimi-linear", "Kimi Linear", read_kimi_linear_config),
    hybrid("lfm2", "LFM2", read_lfm2_config),
    hybrid("lfm2moe", "LFM2 8B-A1B, 24B-A2B", read_lfm2_config),
    decoder("llama", "Llama 1 to 3, Mistral 7B, Mixtral, Yi, SmolLM2, TinyLlama", read_llama_config),
    decoder("llama4", "Llama 4 Scout, Maverick", read_llama4_config),
    hybrid("mamba2", "Mamba-2, Codestral Mamba", read_mamba2_config),
    decoder("minimax-m2", "MiniMax-M2", read_minimax_m2_config),
    decoder("mistral3", "Mistral Small 3, Ministral 3", read_mistral3_config),
    decoder("mistral4", "Mistral Small 4", read_deepseek2_config),
    encoder("modern-bert", "ModernBERT", read_modern_bert_config),
    decoder("nemotron", "Nemotron-4, Minitron", read_nemotron_config),
    hybrid("nemotron_h", "Nemotron-H, Nemotron Nano v2", read_nemotron_h_config),
    hybrid("nemotron_h_moe", "Nemotron 3 Nano, Super", read_nemotron_h_config),
    encoder("nomic-bert", "Nomic Embed v1", read_nomic_bert_config),
    encoder("nomic-bert-moe", "Nomic Embed v2", read_nomic_bert_moe_config),
    decoder("olmo2", "OLMo 2, 3", read_olmo2_config),
    decoder("olmoe", "OLMoE", read_olmoe_config),
    decoder("phi3", "Phi 3, 4", read_phi3_config),
    decoder("phimoe", "Phi 3.5 MoE, Phi-mini-MoE", read_phimoe_config),
    decoder("qwen2", "Qwen 2, 2.5", read_qwen2_config),
    decoder("qwen2moe", "Qwen 1.5, 2 with experts", read_qwen2moe_config),
    decoder("qwen3", "Qwen 3, Qwen3-Embedding, Qwen3-Reranker", read_qwen3_config),
    hybrid("qwen35", "Qwen 3.5, 3.6, 3.8 dense", read_qwen35_config),
    hybrid("qwen35moe", "Qwen 3.5, 3.6, 3.8 with experts", read_qwen35_config),
    decoder("qwen3moe", "Qwen 3 with experts", read_qwen3moe_config),
    hybrid("qwen3next", "Qwen3-Next, Qwen3-Coder-Next", read_qwen3next_config),
    decoder("seed_oss", "Seed-OSS", read_seed_oss_config),
    decoder("smollm3", "SmolLM3", read_smollm3_config),
    decoder("stablelm", "StableLM 2", read_stablelm_config),
    decoder("starcoder2", "StarCoder2", read_starcoder2_config),
};

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

Result<const Architecture*> architecture_of(const gguf::Reader& file) {
  CAIRN_TRY(const std::string_view name, file.metadata().string("general.architecture"));
  const auto* const found = std::ranges::find(kArchitectures, name, &Architecture::name);
  if (found != std::end(kArchitectures)) return found;
  std::string known;
  for (const Architecture& each : kArchitectures)
    known += fmt::format("{}{} ({})", known.empty() ? "" : "; ", each.name, each.families);
  return fail(Code::kUnsupported, "architecture \"{}\" is not supported; these are: {}", printable(name), known);
}

}  // namespace cairn::model
