/// The list of architectures. A new one is a file beside this and a line in table.cpp.
#pragma once

#include <span>
#include <string_view>

#include "base/error.h"
#include "gguf/reader.h"
#include "model/config.h"
#include "model/encoder/encoder_config.h"
#include "model/metadata_reader.h"

namespace cairn::model {

/// What runs a model: Decoder or Encoder. An assistant is a decoder that drafts for another one
/// (model/decoder/assistant.h), and no model by itself.
enum class ArchitectureKind { kDecoder, kEncoder, kAssistant };

struct Architecture {
  std::string_view name;      ///< general.architecture
  std::string_view families;  ///< names under which its models were published
  ArchitectureKind kind = ArchitectureKind::kDecoder;
  ReadDecoderConfig read_decoder = nullptr;  ///< of kDecoder and kAssistant
  bool hybrid = false;                       ///< kDecoder: layers may be without attention or feed-forward
  ReadWholeConfig read_whole = nullptr;      ///< kDecoder: in place of read_decoder
  ReadEncoderConfig read_encoder = nullptr;  ///< of kEncoder

  DecoderReader decoder_reader() const { return {name, read_decoder, hybrid, read_whole}; }
};

/// Sorted by name.
std::span<const Architecture> architectures();
/// The file's. Errors: kCorruptFile (it names none), kUnsupported (another one; the message lists those that there
/// are).
Result<const Architecture*> architecture_of(const gguf::Reader& file);

Result<void> read_cohere2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_command_r_config(const MetadataReader& keys, DecoderConfig& config);
Result<DecoderConfig> read_deepseek4_config(const gguf::Reader& file, int32_t context_tokens);
Result<void> read_deepseek2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_deepseek32_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_ernie4_5_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_ernie4_5_moe_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_exaone4_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_falcon_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_falcon_h1_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_gemma_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_gemma2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_gemma3_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_gemma4_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_gemma4_assistant_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_glm_dsa_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_glm4_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_glm4moe_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_gpt_oss_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_gpt2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_granite_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_granite_hybrid_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_hunyuan_dense_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_kimi_linear_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_lfm2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_llama_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_llama4_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_minimax_m2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_mamba2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_mistral3_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_nemotron_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_nemotron_h_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_olmo2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_olmoe_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_phi3_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_phimoe_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_qwen2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_qwen2moe_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_qwen3_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_qwen35_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_qwen3moe_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_qwen3next_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_seed_oss_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_smollm3_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_stablelm_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_starcoder2_config(const MetadataReader& keys, DecoderConfig& config);

Result<void> read_bert_config(const MetadataReader& keys, EncoderConfig& config);
Result<void> read_eurobert_config(const MetadataReader& keys, EncoderConfig& config);
Result<void> read_gemma_embedding_config(const MetadataReader& keys, EncoderConfig& config);
Result<void> read_jina_bert_v2_config(const MetadataReader& keys, EncoderConfig& config);
Result<void> read_jina_bert_v3_config(const MetadataReader& keys, EncoderConfig& config);
Result<void> read_modern_bert_config(const MetadataReader& keys, EncoderConfig& config);
Result<void> read_nomic_bert_config(const MetadataReader& keys, EncoderConfig& config);
Result<void> read_nomic_bert_moe_config(const MetadataReader& keys, EncoderConfig& config);

}  // namespace cairn::model
