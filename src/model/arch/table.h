/// The list of architectures. A new one is a file beside this and a line in table.cpp.
#pragma once

#include <span>
#include <string_view>

#include "base/error.h"
#include "model/config.h"
#include "model/encoder/encoder_config.h"
#include "model/metadata_reader.h"

namespace cairn {

/// Completes a config that holds the common numbers, one layer entry per layer, and llama's choices. At the end
/// every layer's rope is kNoRope or an index into ropes.
using Describe = Result<void> (*)(const MetadataReader& keys, DecoderConfig& config);

struct Architecture {
  std::string_view name;  ///< general.architecture
  Describe describe;
};

/// The same for encoders, whose config holds the numbers that all have.
using DescribeEncoder = Result<void> (*)(const MetadataReader& keys, EncoderConfig& config);

struct EncoderArchitecture {
  std::string_view name;
  DescribeEncoder describe;
};

/// Sorted by name.
std::span<const Architecture> architectures();
std::span<const EncoderArchitecture> encoder_architectures();

Result<void> read_deepseek2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_deepseek32_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_gemma_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_gemma2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_gemma3_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_granite_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_llama_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_mistral3_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_olmo2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_phi3_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_qwen2_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_qwen2moe_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_qwen3_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_qwen3moe_config(const MetadataReader& keys, DecoderConfig& config);
Result<void> read_smollm3_config(const MetadataReader& keys, DecoderConfig& config);

Result<void> read_bert_config(const MetadataReader& keys, EncoderConfig& config);
Result<void> read_jina_bert_v2_config(const MetadataReader& keys, EncoderConfig& config);
Result<void> read_nomic_bert_config(const MetadataReader& keys, EncoderConfig& config);

}  // namespace cairn
