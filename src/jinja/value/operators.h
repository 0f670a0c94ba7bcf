/// Python's operators on values.
#pragma once

#include <cstdint>
#include <string_view>

#include "jinja/parse/ast.h"
#include "jinja/value/value.h"

namespace cairn::jinja {

Result<Value> arithmetic(Budget& budget, ArithmeticOp op, const Value& a, const Value& b);
Result<Value> negate(const Value& value);
Result<Value> plus(const Value& value);

Result<bool> equals(Budget& budget, const Value& a, const Value& b);
/// a < b; an Error for values without an order.
Result<bool> less(Budget& budget, const Value& a, const Value& b);
Result<bool> contains(Budget& budget, const Value& container, const Value& item);
Result<bool> compare(Budget& budget, CompareOp op, const Value& a, const Value& b);

/// value.name: methods first, then keys. A missing name gives an undefined value, which is not an error.
Result<Value> get_attribute(Budget& budget, const Value& value, std::string_view name);
/// value[key]: keys first, then methods.
Result<Value> get_item(Budget& budget, const Value& value, const Value& key);
/// value[start:stop:step]; None for a part that is left out.
Result<Value> get_slice(Budget& budget, const Value& value, const Value& start, const Value& stop, const Value& step);

/// len(value)
Result<int64_t> length(const Value& value);
/// The values of a loop over it, as a list. An iterator is used up.
Result<Value> to_list(Budget& budget, const Value& value);
bool is_iterable(const Value& value);

/// First occurrence at or after `from`, or npos; linear in the text's length for any needle.
size_t find_text(std::string_view text, std::string_view needle, size_t from = 0);

}  // namespace cairn::jinja
