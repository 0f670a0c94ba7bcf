/// Implements '%s' % x and '{}'.format(x).
#pragma once

#include "jinja/interpret/args.h"
#include "jinja/value/value.h"

namespace cairn::jinja {

/// text % values, where values are a tuple's elements, a dict by name, or a single value.
Result<Value> format_percent(Budget& budget, const Value& text, const Value& values);

/// text.format(args): fields by position or name, with .attribute and [key], !r !s, and a format specification.
Result<Value> format_braces(Budget& budget, const Value& text, const Args& args);

/// The layout of a number or string.
struct FormatSpec {
  char type = '\0';  ///< one of d x X o b c e E f F g G % s r, or none
  char sign = '-';   ///< one of '+', ' ', '-'
  bool alternate = false;
  bool zero = false;
  char grouping = '\0';  ///< ',' or '_', or none
  int64_t width = 0;
  int64_t precision = -1;
  Piece fill = " ";
  char align = '\0';  ///< '<', '>', '^', '='
};

/// Writes an int, bool or float by `spec` (whose type may not be s, r or c).
Result<void> put_number(Buffer& out, const Value& number, const FormatSpec& spec);
/// Writes text cut to the precision and padded to the width; `align` is used if the spec has none.
Result<void> put_aligned(Buffer& out, Piece text, const FormatSpec& spec, char align);

}  // namespace cairn::jinja
