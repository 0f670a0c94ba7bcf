/// What a model file holds, in words and in JSON: for the commands that show it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "gguf/reader.h"

namespace cairn {

/// "4096 x 32", the row length first.
std::string shape_text(const gguf::Tensor& tensor);
/// The name of a value's type: "u32", "[string]".
std::string type_text(const gguf::Value& value);
/// {"type", "value"}, for arrays also "of" and "length"; "value" then holds only the first elements, unless `full`.
nlohmann::ordered_json value_json(const gguf::Value& value, bool full);
/// A value as one readable line; cut, unless `full`.
std::string value_text(const gguf::Value& value, bool full);

}  // namespace cairn
