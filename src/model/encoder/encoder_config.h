/// An encoder model in numbers and choices, as config.h has them for decoders.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "model/embedder.h"
#include "model/metadata_reader.h"

namespace cairn {

struct Architecture;  // arch/table.h

/// Norms come after attention and feed-forward, over what was added: x = norm(x + block(x)).
struct EncoderConfig {
  int64_t vocabulary = 0;
  int64_t embedding = 0;
  int64_t feed_forward = 0;
  int32_t layers = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t context_trained = 0;
  int32_t context_tokens = 0;  ///< of this run, at most the trained one
  float norm_epsilon = 0;
  Pooling pooling = Pooling::kMean;

  Activation activation = Activation::kGeluErf;
  bool gated = true;               ///< feed-forward is down(act(gate x) * up x), else down(act(up x))
  bool learned_positions = false;  ///< a vector for every position is added to the token's
  int64_t token_types = 0;         ///< rows of the table of token types; 0: none
  std::optional<RopeConfig> rope;
  std::vector<float> slopes;  ///< AttentionParams::slopes, or empty
  int64_t labels = 0;         ///< outputs of the head that ranks; 0: none
  bool label_dense = false;   ///< which has a layer of its own before them
  bool label_relu = false;    ///< that layer's activation is max(x, 0), as DistilBERT's, else tanh
};

/// Errors: those of load_model.
Result<EncoderConfig> read_encoder_config(const gguf::Reader& file, const Architecture& architecture,
                                          int32_t context_tokens);

/// Slopes of ALiBi (Press et al. 2022): geometric from 2^(-8 / heads) on; where the heads are no power of two, those of
/// the power below, then every other one of the power above.
std::vector<float> alibi_slopes(int32_t heads);

}  // namespace cairn
