/// All weights of DeepSeek V4, by the tensor names that GGUF files give them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/deepseek4/config.h"
#include "model/parts/experts.h"
#include "model/parts/norm.h"
#include "model/weights/weight_loader.h"

namespace cairn::deepseek4 {

struct LayerWeights {
  StreamWeights attention_streams;
  Norm attention_norm;
  CompressedAttentionWeights attention;
  std::unique_ptr<EngramWeights> engram;  ///< of layers that have one

  StreamWeights feed_forward_streams;
  Norm feed_forward_norm;
  std::unique_ptr<Experts> experts;
};

/// See mtp_weights.h.
struct MtpWeights {
  Norm token_norm;
  Norm stream_norm;
  Linear pair;  ///< of the token's embedding and a stream, one behind the other; or the next two, whose products add up
  Linear token;
  Linear stream;
  StreamWeights output_streams;  ///< if there are any; or else it shares the model's, as the next
  Norm output_norm;
};

/// See dspark_weights.h.
struct DsparkWeights {
  Linear main;  ///< of the inputs of the layers that it reads, one behind the other
  Norm main_norm;
  StreamWeights output_streams;  ///< of V4
  Norm output_norm;
  Weight markov_embedding;  ///< [vocabulary, rank], of the token before
  Linear markov_output;     ///< [vocabulary, rank]: what it adds to logits
  bool has_confidence = false;
  Linear confidence;  ///< [1, embedding + rank]: of a row before its last norm, and the embedding of the token before
};

struct ModelWeights {
  LookupTable embedding;
  std::vector<LayerWeights> layers;
  StreamWeights output_streams;
  Norm output_norm;
  Linear output;
  MtpWeights mtp;                             ///< if the config says so
  DsparkWeights dspark;                       ///< likewise
  std::shared_ptr<LowRankRows> adapter_rows;  ///< as in DecoderWeights
};

/// `mtp_file`: the file that has the MTP module or the drafting head, if `file` has not.
Result<ModelWeights> load_weights(WeightLoader& loader, const gguf::Reader& file, const ModelConfig& config,
                                  const gguf::Reader* mtp_file);
/// Of the tensors that begin with `prefix`.
Result<LayerWeights> load_layer(WeightLoader& loader, const gguf::Reader& file, const ModelConfig& config, size_t layer,
                                const std::string& prefix);
}  // namespace cairn::deepseek4
