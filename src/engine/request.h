/// What a client asks of an engine: one prompt, and how its answer is made.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/scheduling/party.h"
#include "model/pooling.h"
#include "sampling/sampler.h"

namespace cairn {

/// More than a client may name (api/): a chat template's own end of turn joins them.
inline constexpr size_t kStopStringsMax = 32;
inline constexpr size_t kStopBytesMax = 1'024;

class DecodingConstraint;

/// What is wanted of a text that is not to be continued.
struct EmbeddingOptions {
  Pooling pooling = Pooling::kLast;  ///< not kNone
  int32_t second_begin = kNoSecond;  ///< EmbedText's
};

/// One prompt and one answer: the choices of a client's request are several of these.
struct GenerateRequest {
  std::vector<TokenId> prompt;  ///< at least one token
  SamplingParams sampling;
  /// At least 1; the end of the context comes first if that is nearer. -1: to the end of the context, or of the pool.
  int32_t max_tokens = -1;
  std::vector<std::string> stop;  ///< text that ends the answer and is not part of it
  bool ignore_eos = false;        ///< tokens that end generation are tokens like others
  bool text_at_start = false;     ///< the answer begins a text (see Detokenizer)
  bool render_special = false;    ///< special tokens show as text

  std::string id;      ///< for prefix_report and logs; may be empty
  std::string client;  ///< who shares fairly with others; an address, as long as anybody may make up keys
  std::string tenant;  ///< among its client's, with a share and a limit (tenant_requests_max) of its own; may be empty
  uint64_t salt = 0;   ///< only requests of the same salt share what is cached
  Priority priority = Priority::kInteractive;
  std::chrono::milliseconds target_ttft{0};  ///< to the first token, from submit; 0: by priority and length
  std::chrono::milliseconds target_tbt{0};   ///< between tokens; 0: none
  bool speculate = true;                     ///< if the engine does
  /// No answer but Finish::embedding; the prompt may fill the whole context. What belongs to the answer counts for
  /// nothing, and the prefix cache has no part in it.
  std::optional<EmbeddingOptions> embed;
  std::shared_ptr<DecodingConstraint> constraint;  ///< of this request alone; null: the model decides everything
};

}  // namespace cairn
