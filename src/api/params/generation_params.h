/// Parameters of a generation that protocols take in the same words: stop strings, sampling, scheduling.
///
/// Source: OpenAI API reference, "Chat Completions"; fields beyond it are those that llama.cpp and vLLM share.
/// docs/sampling.md says what they do.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "api/params/request_fields.h"
#include "engine/engine.h"

namespace cairn::api {

inline constexpr size_t kStopsMax = 256;  ///< strings in `stop`
inline constexpr size_t kCacheSaltBytesMax = 256;
inline constexpr int64_t kTargetMsMax = 3'600'000;  ///< of metadata.target_ttft_ms and target_tbt_ms: an hour
inline constexpr int64_t kTokensMax = std::numeric_limits<int32_t>::max();  ///< of a field that counts tokens

/// What the strings that end an answer are called: by OpenAI, Cohere, KoboldCpp, text-generation-webui and
/// transformers.
inline constexpr std::string_view kStopNames[] = {"stop", "stop_sequences", "stop_sequence", "stopping_strings",
                                                  "stop_strings"};
/// Adds the strings of `stop` by any of its names, which must agree; but for those that a protocol has read as its own
/// before. False: none is there.
bool read_stop(RequestFields& fields, std::vector<std::string>& stop);
/// Reads `stop` and what else ends an answer, the sampling parameters (sampling_fields.h), `priority`, `cache_salt`,
/// the latency targets of `metadata`, and llama.cpp's fields (llama_options.h). What the body leaves out stays as it is
/// in `generate`, but for the seed, which is then drawn at random.
void read_generation_params(RequestFields& fields, engine::GenerateRequest& generate);

}  // namespace cairn::api
