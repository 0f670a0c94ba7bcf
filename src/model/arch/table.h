/// The list of architectures. A new one is a file beside this and a line in table.cpp.
#pragma once

#include <span>
#include <string_view>

#include "base/error.h"
#include "model/description.h"
#include "model/encoder_description.h"
#include "model/hyper_params.h"

namespace cairn {

/// Completes a description that holds the common numbers, one layer entry per layer, and llama's choices. At the end
/// every layer's rope is kNoRope or an index into ropes.
using Describe = Result<void> (*)(const Keys& keys, DecoderDescription& description);

struct Architecture {
  std::string_view name;  ///< general.architecture
  Describe describe;
};

/// The same for encoders, whose description holds the numbers that all have.
using DescribeEncoder = Result<void> (*)(const Keys& keys, EncoderDescription& description);

struct EncoderArchitecture {
  std::string_view name;
  DescribeEncoder describe;
};

/// Sorted by name.
std::span<const Architecture> architectures();
std::span<const EncoderArchitecture> encoder_architectures();

Result<void> describe_deepseek2(const Keys& keys, DecoderDescription& description);
Result<void> describe_deepseek32(const Keys& keys, DecoderDescription& description);
Result<void> describe_gemma(const Keys& keys, DecoderDescription& description);
Result<void> describe_gemma2(const Keys& keys, DecoderDescription& description);
Result<void> describe_gemma3(const Keys& keys, DecoderDescription& description);
Result<void> describe_granite(const Keys& keys, DecoderDescription& description);
Result<void> describe_llama(const Keys& keys, DecoderDescription& description);
Result<void> describe_mistral3(const Keys& keys, DecoderDescription& description);
Result<void> describe_olmo2(const Keys& keys, DecoderDescription& description);
Result<void> describe_phi3(const Keys& keys, DecoderDescription& description);
Result<void> describe_qwen2(const Keys& keys, DecoderDescription& description);
Result<void> describe_qwen2moe(const Keys& keys, DecoderDescription& description);
Result<void> describe_qwen3(const Keys& keys, DecoderDescription& description);
Result<void> describe_qwen3moe(const Keys& keys, DecoderDescription& description);
Result<void> describe_smollm3(const Keys& keys, DecoderDescription& description);

Result<void> describe_bert(const Keys& keys, EncoderDescription& description);
Result<void> describe_jina_bert_v2(const Keys& keys, EncoderDescription& description);
Result<void> describe_nomic_bert(const Keys& keys, EncoderDescription& description);

}  // namespace cairn
