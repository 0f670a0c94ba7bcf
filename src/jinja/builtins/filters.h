/// The built-in filters, by subject. filters.cpp has the table of their names.
#pragma once

#include "jinja/interpret/args.h"
#include "jinja/value/value.h"

namespace cairn::jinja {

class Interpreter;

namespace filters {

using Filter = Result<Value>(Interpreter&, const Value& input, const Args&);

// filters_text.cpp
Filter upper, lower, capitalize, title, trim, replace, center, indent, truncate, wordcount, wordwrap, format, string,
    safe, escape, force_escape, striptags, urlencode, xmlattr, pprint, tojson;

// filters_number.cpp
Filter abs, to_int, to_float, round, filesizeformat, sum, min, max;

// filters_sequence.cpp
Filter first, last, length, list, join, reverse, sort, unique, groupby, dictsort, items, batch, slice;

// filters_select.cpp
Filter attribute, default_value, map, select, reject, selectattr, rejectattr;

}  // namespace filters

/// Follows a path like "a.b.0" from a value; an integer is one step.
class AttributePath {
 public:
  /// None: no step, the value itself. An Error for a path that is not text, integer or None.
  static Result<AttributePath> parse(Budget& budget, const Value& path);
  /// A step that is undefined gives `missing`, if that is not null.
  Result<Value> follow(Budget& budget, Value from, const Value* missing = nullptr) const;

 private:
  std::vector<Value> steps_;
};

/// The key for sorting and comparing without case: strings in lower case, other values unchanged.
Result<Value> ignore_case(Budget& budget, const Value& value);

/// Wraps a list as the result of Jinja's lazy filters: it can be iterated once.
Result<Value> make_iterator(Budget& budget, std::vector<Value> items);

}  // namespace cairn::jinja
