/// Values as Python prints them.
#pragma once

#include <string>

#include "jinja/value/value.h"

namespace cairn::jinja {

/// str(value)
Result<void> put_str(Buffer& out, const Value& value);
/// repr(value)
Result<void> put_repr(Buffer& out, const Value& value);
/// str(value) as a string value; a string is returned unchanged.
Result<Value> to_text(Budget& budget, const Value& value);

std::string float_repr(double value);

/// Options of json.dumps.
struct JsonStyle {
  Piece item_separator = ", ";
  Piece key_separator = ": ";
  bool indented = false;
  Piece indent = "";  ///< one level of indentation
  bool ensure_ascii = false;
  bool sort_keys = false;
};
/// json.dumps(value); an Error for values that JSON cannot represent.
Result<void> put_json(Buffer& out, const Value& value, const JsonStyle& style);

}  // namespace cairn::jinja
