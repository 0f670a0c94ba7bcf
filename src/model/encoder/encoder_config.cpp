#include "model/encoder/encoder_config.h"

#include <bit>
#include <cmath>

#include "model/arch/table.h"

namespace cairn {
namespace {

/// Rows of a table [rows, width] that a file may leave out.
int64_t rows_of(const gguf::Reader& file, std::string_view tensor) {
  const gguf::Tensor* found = file.find_tensor(tensor);
  if (found == nullptr) return 0;
  return found->shape.size() < 2 ? 1 : found->shape[1];
}

Result<void> read_sizes(const MetadataReader& keys, EncoderConfig& config) {
  CAIRN_TRY(config.layers, keys.integer("block_count", 1, kLayersMax));
  CAIRN_TRY(config.embedding, keys.integer("embedding_length", 1, kEmbeddingMax));
  CAIRN_TRY(config.feed_forward, keys.integer("feed_forward_length", 1, kFeedForwardMax));
  CAIRN_TRY(config.heads, keys.integer("attention.head_count", 1, kHeadsMax));
  if (config.embedding % config.heads != 0 || config.embedding / config.heads > kHeadDimMax) {
    return fail(Code::kCorruptFile, "{} is {} and {} is {}: heads must divide it into parts of {} at most",
                keys.full("embedding_length"), config.embedding, keys.full("attention.head_count"), config.heads,
                kHeadDimMax);
  }
  config.head_dim = static_cast<int32_t>(config.embedding / config.heads);
  CAIRN_TRY(config.norm_epsilon, keys.number("attention.layer_norm_epsilon"));
  if (config.norm_epsilon < 0) {
    return fail(Code::kCorruptFile, "{} is {}, but it must not be negative", keys.full("attention.layer_norm_epsilon"),
                config.norm_epsilon);
  }
  CAIRN_TRY(const bool causal, keys.boolean_or("attention.causal", false));
  if (causal) {
    return fail(Code::kUnsupported, "{} is true, but {} is known as an encoder only", keys.full("attention.causal"),
                keys.architecture());
  }
  CAIRN_TRY(config.vocabulary, read_vocabulary(keys));
  return {};
}

/// Variants that have more than their architecture's first files, and would be computed wrongly without it.
Result<void> refuse_variants(const gguf::Reader& file) {
  for (const char* name : {"blk.0.attn_q_norm.weight", "blk.0.attn_norm_2.weight", "blk.0.ffn_gate_inp.weight"}) {
    if (file.find_tensor(name) == nullptr) continue;
    return fail_at(fmt::format("tensor {}", name), Code::kUnsupported,
                   "the file has a tensor {}: encoders with it are not supported", name);
  }
  return {};
}

}  // namespace

bool is_encoder(const gguf::Reader& file) {
  const auto architecture = architecture_of(file);
  return architecture.has_value() && (*architecture)->kind == ArchitectureKind::kEncoder;
}

Result<EncoderConfig> read_encoder_config(const gguf::Reader& file, const Architecture& architecture,
                                          int32_t context_tokens) {
  const MetadataReader keys(file, architecture.name);
  EncoderConfig config;
  CAIRN_TRY_VOID(refuse_variants(file));
  CAIRN_TRY_VOID(read_sizes(keys, config));
  CAIRN_TRY(config.context_trained, keys.integer("context_length", 1, kContextMax));
  CAIRN_TRY(config.context_tokens, context_of_run(config.context_trained, context_tokens));
  config.token_types = rows_of(file, "token_types.weight");
  config.labels = rows_of(file, "cls.output.weight");
  config.label_dense = config.labels > 0 && file.find_tensor("cls.weight") != nullptr;
  CAIRN_TRY(config.pooling, read_pooling(file, config.labels == 1 ? Pooling::kRank : Pooling::kMean));
  CAIRN_TRY_VOID(architecture.read_encoder(keys, config));
  return config;
}

std::vector<float> alibi_slopes(int32_t heads) {
  constexpr double kLargestExponent = 8;
  const auto below = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(heads)));
  std::vector<float> slopes;
  for (int32_t head = 0; head < heads; ++head) {
    const double step = head < below ? head + 1 : head - below + 0.5;
    slopes.push_back(static_cast<float>(std::exp2(-kLargestExponent * step / below)));
  }
  return slopes;
}

}  // namespace cairn
