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

constexpr Architecture encoder(std::string_view name, ReadEncoderConfig read) {
  return {.name = name, .kind = ArchitectureKind::kEncoder, .read_encoder = read};
}

constexpr Architecture kArchitectures[] = {
    encoder("bert", read_bert_config),
    decoder("deepseek2", read_deepseek2_config),
    decoder("deepseek32", read_deepseek32_config),
    {.name = deepseek4::kArchitecture, .kind = ArchitectureKind::kDeepSeek4},
    {.name = deepseek4::kArchitecture41, .kind = ArchitectureKind::kDeepSeek4},
    decoder("gemma", read_gemma_config),
    decoder("gemma2", read_gemma2_config),
    decoder("gemma3", read_gemma3_config),
    decoder("granite", read_granite_config),
    decoder("granitemoe", read_granite_config),
    encoder("jina-bert-v2", read_jina_bert_v2_config),
    decoder("llama", read_llama_config),
    decoder("mistral3", read_mistral3_config),
    decoder("mistral4", read_deepseek2_config),
    encoder("nomic-bert", read_nomic_bert_config),
    decoder("olmo2", read_olmo2_config),
    decoder("phi3", read_phi3_config),
    decoder("qwen2", read_qwen2_config),
    decoder("qwen2moe", read_qwen2moe_config),
    decoder("qwen3", read_qwen3_config),
    decoder("qwen3moe", read_qwen3moe_config),
    decoder("smollm3", read_smollm3_config),
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
