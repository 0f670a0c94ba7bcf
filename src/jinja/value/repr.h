/// Values as Python prints them.
#pragma once

#include <string>

#include "jinja/value/value.h"

namespace cairn::jinja {

/// str(value)
Result<void> put_str(Buffer& out, const Value& value);
/// repr(value)
Result<void> put_repr(Buffer& out, const Value& value);
/// str(value) as a string value; a string stays what it is.
Result<Value> to_text(Budget& budget, const Value& value);

std::string float_repr(double value);

/// json.dumps's options.
struct JsonStyle {
  Piece item_separator = ", ";
  Piece key_separator = ": ";
  bool indented = false;
  Piece indent = "";  ///< one level of it
  bool ensure_ascii = false;
  bool sort_keys = false;
};
/// json.dumps(value); an Error for what JSON has no form of.
Result<void> put_json(Buffer& out, const Value& value, const JsonStyle& style);

}  // namespace cairn::jinja
