#include "model/arch/table.h"

namespace cairn::model {

// ModernBERT: norms before blocks, the first of which is that of the embeddings; GEGLU; one layer that sees the whole
// text, then two with a window and a rope of their own, and so on. Its head that ranks reads the mean row.
Result<void> read_modern_bert_config(const MetadataReader& keys, EncoderConfig& config) {
  config.norms = NormPlacement::kPreLn;
  config.first_norm = false;
  config.feed_forward.fused = true;
  config.label_pooling = Pooling::kMean;
  config.label_activation = kernels::Activation::kGeluErf;
  CAIRN_TRY(const std::string_view activation, keys.string_or("hidden_activation", "gelu"));
  if (activation == "silu") {
    config.feed_forward.activation = kernels::Activation::kSilu;
  } else if (activation != "gelu") {
    return fail(Code::kUnsupported, "{} is \"{}\"; supported are gelu and silu", keys.full("hidden_activation"),
                activation);
  }
  CAIRN_TRY_VOID(read_encoder_rope(keys, config));
  constexpr int64_t kPeriod = 3;
  constexpr double kWindowRopeBase = 10'000;
  constexpr bool kDenseFirst = true;
  CAIRN_TRY(const std::vector<bool> windows, keys.window_pattern(std::ssize(config.layers), kPeriod, kDenseFirst));
  return read_encoder_windows(keys, windows, kWindowRopeBase, config);
}

}  // namespace cairn::model
