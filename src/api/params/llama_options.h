/// Options that llama.cpp and Ollama, which is built on it, take in the same words.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "api/params/request_fields.h"
#include "engine/engine.h"

namespace cairn::api {

/// A field that may say only that something is off: a number from `low` to `high`.
struct OffField {
  std::string_view name;
  double low;
  double high;
  std::string_view why;  ///< what to do instead
};
void refuse_unless_off(RequestFields& fields, std::span<const OffField> table);
/// Refuses what is neither absent nor an empty string, array or object, nor false.
void refuse_unless_empty(RequestFields& fields, std::string_view name, std::string_view why);

/// `object` as read_generation_params takes it: without a seed that says "any" (-1, or its 32 bits).
nlohmann::ordered_json without_any_seed(nlohmann::ordered_json object);
/// mirostat, dry, xtc and the like, which are not available, and what only tunes them.
void refuse_samplers(RequestFields& fields);
/// `low` and more; -1 and -2 both go on to the end of the context, as does a missing one.
void read_predict(RequestFields& fields, std::string_view name, int32_t low, GenerateRequest& generate);

}  // namespace cairn::api
