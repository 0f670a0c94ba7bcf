/// The built-in filters, by subject. The table that names them is filters.cpp.
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
  /// None: no step, the value itself. An Error for what is neither text, integer nor None.
  static Result<AttributePath> parse(Budget& budget, const Value& path);
  /// What is undefined on the way becomes `missing`, if that is not null.
  Result<Value> follow(Budget& budget, Value from, const Value* missing = nullptr) const;

 private:
  std::vector<Value> steps_;
};

/// What sorting and comparing without case go by: strings in lower case, other values as they are.
Result<Value> ignore_case(Budget& budget, const Value& value);

/// Wraps a list as what Jinja's lazy filters give: it can be walked once.
Result<Value> make_iterator(Budget& budget, std::vector<Value> items);

}  // namespace cairn::jinja
