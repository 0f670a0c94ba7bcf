/// Texts in, one vector each out: encoders, of which every row sees the whole text (BERT and its kin).
///
/// Decoders give the same from their Runner's hidden rows; engine/ does the pooling there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/ids.h"
#include "gguf/reader.h"
#include "model/pooling.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

struct ModelOptions;

/// One text to embed, or a pair to judge.
struct EmbedText {
  std::span<const TokenId> tokens;  ///< 1 .. context_tokens()
  /// From here on it is the second one of a pair, for models that tell them apart; kNoSecond: there is none.
  int32_t second_begin = kNoSecond;
  std::span<const float> adapter_scales = {};  ///< as in BatchSlice
};

/// Thread: one at a time.
class Embedder {
 public:
  virtual ~Embedder() = default;
  virtual const EmbeddingAbility& ability() const = 0;
  virtual int64_t vocabulary() const = 0;
  /// Tokens that a text may have.
  virtual int32_t context_tokens() const = 0;
  /// Tokens of all texts of a call, at least context_tokens(); and texts.
  virtual int32_t batch_tokens_max() const = 0;
  virtual int32_t texts_max() const = 0;
  /// What comes out for a text, not normalised, does not depend on the others: [texts, dimensions], for kRank [texts],
  /// for kNone [tokens of all texts, width of a row], which layers over pooled rows have not changed. Errors: the
  /// backend's.
  virtual Result<void> embed(std::span<const EmbedText> texts, Pooling pooling, std::span<float> out) = 0;
};

/// Whether the file's architecture is one that load_embedder knows.
bool is_encoder(const gguf::Reader& file);
/// The same as load_model, with model_memory beside it, for encoders.
Result<std::unique_ptr<Embedder>> load_embedder(const gguf::Reader& file, kernels::Backend& backend,
                                                const ModelOptions& options);
}  // namespace cairn::model
