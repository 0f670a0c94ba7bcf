/// JSON texts of strangers: what a document will take is known in one pass, and reading it takes time linear in it.
///
/// nlohmann::ordered_json by itself searches an object's members for every one that it adds, and a text of a few bytes
/// a value becomes a document of many times its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cairn {

inline constexpr int kJsonDepthMax = 64;
/// Of one object: a schema has hundreds. What looks for a name goes through all of an object's.
inline constexpr size_t kJsonMembersMax = 65'536;
/// Of a document, with every object and array: ids of tokens are the most that clients send.
inline constexpr size_t kJsonValuesMax = 4 << 20;

/// What a text holds, before it is read. Of a text that is no JSON it is about as much as is read of it.
struct JsonMeasure {
  std::vector<uint32_t> sizes;  ///< of each object and array in the order in which they begin
  size_t values = 0;            ///< with the whole
  size_t bytes = 0;             ///< about what the document takes in memory
};

/// Errors: kTooLarge (over the limit of members or values, which is named), kInvalidArgument (nested too deep, a NUL
/// byte). They go on from the name of what the text is: "is nested deeper than 64 levels".
Result<JsonMeasure> measure_json(std::string_view text);

/// Time O(n log n) in the members of an object, else linear. Of members with the same name the last one counts, in the
/// place of the first. Errors: measure_json's; kInvalidArgument with the place where the text stops being JSON.
Result<nlohmann::ordered_json> read_json(std::string_view text);

/// Adds a member without looking whether it is there: for names that are known to differ.
inline void append_member(nlohmann::ordered_json& object, std::string name, nlohmann::ordered_json value) {
  object.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(std::move(name), std::move(value));
}

}  // namespace cairn
