/// Reads the JSON lines of `cairn grammar`, whose texts must arrive as they were written.
#pragma once

#include <cstddef>
#include <istream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn {

inline constexpr size_t kLineBytesMax = size_t{64} << 20;
inline constexpr size_t kLineDepthMax = 1'000;  ///< arrays and objects within each other

struct InputLine {
  std::string text;
  bool too_long = false;  ///< it has more than kLineBytesMax bytes, and `text` is its beginning
};

/// False: the input has ended.
bool read_line(std::istream& input, InputLine& line);

/// A line's JSON, and what is wrong with it, which need not keep its id from being known.
struct JsonLine {
  nlohmann::ordered_json value;
  Result<void> valid;
};

/// Numbers are as nlohmann::json has them; escapes of NUL are NUL. Of members with the same name the last one counts,
/// in the place of the first. Takes O(n log n) time. Not valid: kInvalidArgument (no JSON object), kTooLarge
/// (kLineBytesMax, kLineDepthMax; what is deeper is null in `value`).
JsonLine parse_line(const InputLine& line);

}  // namespace cairn
