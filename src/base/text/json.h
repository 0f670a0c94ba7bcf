/// Reads JSON texts from strangers: the memory of a document is determined in one pass, and reading takes linear time.
///
/// nlohmann::ordered_json by itself searches all members of an object for every one that it adds, and a text with a few
/// bytes per value becomes a document of many times its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cairn {

inline constexpr int kJsonDepthMax = 64;
/// Maximum members of one object: a schema has hundreds. Looking up a name goes through all of an object's members.
inline constexpr size_t kJsonMembersMax = 65'536;
/// Maximum values of a document, including every object and array: token ids are the most that clients send.
inline constexpr size_t kJsonValuesMax = 4 << 20;

/// The contents of a text, measured before it is read. For a text that is not JSON, approximately those of the part
/// that would be read.
struct JsonMeasure {
  /// Number of members or elements of each object and array, in the order in which they begin.
  std::vector<uint32_t> sizes;
  size_t values = 0;  ///< including the whole document
  size_t bytes = 0;   ///< approximate memory of the document
};

/// Errors: kTooLarge (over the limit of members or values, which is named), kInvalidArgument (nested too deep, a NUL
/// byte). Their messages continue a name for the text: "is nested deeper than 64 levels".
Result<JsonMeasure> measure_json(std::string_view text);

/// Takes O(n log n) time in the members of an object, and else linear time. Of members with the same name the last one
/// counts, in the place of the first. Escapes of NUL, and of a surrogate without its other half, are read as U+FFFD: no
/// text can hold the second, and tools' outputs have both. Errors: those of measure_json; kInvalidArgument with the
/// place where the text stops being JSON.
Result<nlohmann::ordered_json> read_json(std::string_view text);

/// A number as nlohmann::json holds it, or where neither 64 bits nor a double hold its digits, the text of it, which is
/// kept as a binary value: is_number() is false for it. `value`: the double next to it.
nlohmann::ordered_json exact_number(double value, std::string_view text);
/// Whether the value is a number, of either kind.
bool is_any_number(const nlohmann::ordered_json& value);
/// Any number as it is written.
std::string number_text(const nlohmann::ordered_json& number);
/// Any number, as the double next to it.
double number_value(const nlohmann::ordered_json& number);
/// Turns all numbers below that are kept as texts into the doubles next to them.
void round_numbers(nlohmann::ordered_json& value);
/// JSON text, with all numbers as they are written; with `indent` in lines with so many spaces for each level.
/// Ill-formed UTF-8 in strings becomes U+FFFD.
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

/// Adds a member without checking whether its name exists: for names that are known to differ.
inline void append_member(nlohmann::ordered_json& object, std::string name, nlohmann::ordered_json value) {
  object.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(std::move(name), std::move(value));
}

}  // namespace cairn
