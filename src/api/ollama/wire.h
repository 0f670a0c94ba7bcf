/// Pieces that Ollama's answers share.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "loader/registry.h"

namespace cairn::api::ollama {

/// "2026-11-22T08:30:00.123456Z".
std::string rfc3339(int64_t unix_microseconds);
std::string rfc3339_now();

/// As Registry::find; "NAME:latest" is NAME unless a model is called so.
Result<LoadedModel*> find_model(const Registry& registry, std::string_view name);

/// 7.6B, 656K: as Ollama writes a number of parameters.
std::string human_number(int64_t number);

}  // namespace cairn::api::ollama
