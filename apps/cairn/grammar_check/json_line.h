/// Reads the JSON lines of `cairn grammar`, whose texts must arrive as they were written.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn {

inline constexpr size_t kLineDepthMax = 1'000;  ///< arrays and objects within each other

/// A line's JSON, and what is wrong with it, which need not keep its id from being known.
struct JsonLine {
  nlohmann::ordered_json value;
  Result<void> valid;
};

/// Numbers are as nlohmann::json has them; escapes of NUL are NUL. Of members with the same name the last one counts,
/// in the place of the first. Takes O(n log n) time. Not valid: kInvalidArgument (no JSON object), kTooLarge
/// (check_line_length, kLineDepthMax; what is deeper is null in `value`).
JsonLine parse_line(std::string_view line);

}  // namespace cairn
