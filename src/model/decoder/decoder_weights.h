/// All weights of a decoder, by the tensor names that GGUF files give them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "model/parts/attention.h"
#include "model/parts/compressed_attention.h"
#include "model/parts/engram.h"
#include "model/parts/experts.h"
#include "model/parts/feed_forward.h"
#include "model/parts/mla.h"
#include "model/parts/norm.h"
#include "model/parts/recurrent/weights.h"
#include "model/weights/row_table.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

/// Parts that the layer does not have are null; norms that the config leaves out do not exist.
struct LayerWeights {
  std::unique_ptr<EngramWeights> engram;
  StreamWeights attention_streams;  ///< where there are several streams
  Norm attention_norm;
  std::unique_ptr<Attention> attention;
  std::unique_ptr<Mla> mla;                                ///< instead
  std::unique_ptr<CompressedAttentionWeights> compressed;  ///< instead
  std::unique_ptr<RecurrentWeights> recurrent;
  Norm attention_post_norm;

  StreamWeights feed_forward_streams;
  Norm feed_forward_norm;
  std::unique_ptr<FeedForward> dense;
  Norm dense_post_norm;  ///< of `dense` beside experts, as the next three are of these
  Norm routed_norm;
  Norm routed_post_norm;
  Norm router_norm;
  std::unique_ptr<Experts> experts;
  Norm feed_forward_post_norm;

  std::unique_ptr<LayerInput> input;
  Norm input_post_norm;
  float output_scale = 1;
};

/// What the MTP module has beside its layer. What it has not of its own is the model's.
struct MtpWeights {
  Norm token_norm;
  Norm row_norm;
  Linear
      pair;  ///< [embedding, 2 * embedding], of a token and a stream before it; or the next two, whose products add up
  Linear token;  ///< [embedding, embedding]
  Linear row;
  StreamWeights output_streams;  ///< may be empty, as the next three
  Norm output_norm;
  kernels::Weight embedding;
  Linear output;
};

/// The drafting head beside its layers: see dspark_weights.h.
struct DsparkWeights {
  Linear main;  ///< of the inputs of the layers that it reads, one behind the other
  Norm main_norm;
  StreamWeights output_streams;  ///< of V4
  Norm output_norm;
  kernels::Weight markov_embedding;  ///< [vocabulary, rank], of the token before
  Linear markov_output;              ///< [vocabulary, rank]: what it adds to logits
  bool has_confidence = false;
  Linear confidence;  ///< [1, embedding + rank]: of a row before its last norm, and the embedding of the token before
};

struct DecoderWeights {
  LookupTable embedding;  ///< empty where nothing of the range needs it
  PerLayerInputWeights per_layer_inputs;
  kernels::Weight positions;         ///< [context_trained, embedding], where they are learned; with the first layer
  std::vector<LayerWeights> layers;  ///< of the range; behind its last layer those that draft
  MtpWeights mtp;                    ///< of ranges with the last layer, if the config says so
  DsparkWeights dspark;              ///< likewise
  StreamWeights output_streams;      ///< where several streams are not the mean of shares that are carried (V4)
  Norm output_norm;                  ///< empty where the range has no last layer, as what follows
  Linear output;  ///< refers to the embedding where they are one; an adapter of the embedding does not change it
  kernels::Weight labels;                              ///< of the head that ranks; empty if there is none
  std::shared_ptr<kernels::LowRankRows> adapter_rows;  ///< of all matrices' adapters; null: there are none
};

/// Loads what belongs to those layers: the embedding comes with the first one, or with all that have inputs of their
/// own, and with layers that draft, the output and the labels with the last. `drafts` is the file that has the MTP
/// module or the drafting head, if the model's has not.
Result<DecoderWeights> load_decoder_weights(WeightLoader& loader, const DecoderConfig& config, LayerRange range,
                                            const gguf::Reader* drafts = nullptr);
/// The tensors of one layer, which begin with `prefix`.
Result<LayerWeights> load_layer(WeightLoader& loader, const DecoderConfig& config, int32_t layer, std::string prefix);

}  // namespace cairn::model
