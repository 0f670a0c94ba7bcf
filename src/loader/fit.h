/// Whether a model fits into memory and how fast it may write, told from its file's header alone.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::loader {

/// Models are compared with one conversation of so many tokens, or of as many as they were trained for.
inline constexpr int32_t kComparedTokens = 8'192;
/// A model fits comfortably where so much stays free beside it, for everything else that runs.
inline constexpr int64_t kComfortBytes = int64_t{2} << 30;

enum class Fit { kYes, kTight, kNo };
/// "yes", "tight", "no".
std::string_view fit_name(Fit fit);
/// Tells it of a model that takes so much in all. Tight: less than kComfortBytes stay free.
Fit fit_of(int64_t model_bytes, int64_t available_bytes);
/// What is missing to fit at all; 0: nothing.
int64_t missing_bytes(int64_t model_bytes, int64_t available_bytes);

/// What the model takes in all with one conversation of kComparedTokens on the processor: weights, cache, working
/// memory. Errors: those of model::model_memory and plan_memory.
Result<int64_t> conversation_bytes(const gguf::Reader& file);

/// Bytes of weights that are read from memory for each token: of experts those that are used, and of tables of tokens
/// none.
int64_t bytes_read_per_token(const gguf::Reader& file);

/// At that many bytes per second; 0 where one of the two is not known.
double tokens_per_second(int64_t bandwidth, int64_t bytes_per_token);

}  // namespace cairn::loader
