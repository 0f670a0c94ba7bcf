/// Fields that llama.cpp's server takes wherever it generates, besides those of sampling (sampling_fields.h).
///
/// Source: llama.cpp, tools/server/README.md, "POST /completion".
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "api/params/request_fields.h"
#include "engine/engine.h"

namespace cairn::api {

/// `cache_prompt`, `id_slot`, `t_max_predict_ms`, `n_indent` and `lora`, and those that may say only that something is
/// off or change nothing here.
void read_llama_fields(RequestFields& fields, engine::GenerateRequest& generate);

/// Reads a list of LoRA adapters, [{"id", "scale"}, ...], as a request or POST /lora-adapters has it; a scale that is
/// left out is 0. Returns what is wrong with the list, "must be ...", or nothing.
std::string_view read_adapter_scales(const nlohmann::ordered_json& list, std::vector<engine::AdapterScale>& scales);

/// What the length of an answer is called: by OpenAI, llama.cpp, transformers and Ollama.
inline constexpr std::string_view kTokenLimitNames[] = {"max_completion_tokens", "max_tokens",     "n_predict",
                                                        "max_output_tokens",     "max_new_tokens", "num_predict"};
/// The length of an answer by any of its names, which must agree: -1 to the end of the context, as every negative
/// number says; 0 computes the prompt alone. Without any of the names, the server's default, which may be nothing.
std::optional<int32_t> read_token_limit(RequestFields& fields);

}  // namespace cairn::api
