/// The tables of names that a template can use. Filters are applied with `|`, tests with `is`.
#pragma once

#include <string_view>

#include "jinja/interpret/args.h"
#include "jinja/parse/ast.h"
#include "jinja/value/value.h"

namespace cairn::jinja {

/// The filter of that name; nullptr if there is none.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

/// A global function: range, dict, namespace, raise_exception, ...
using GlobalFunction = Result<Value> (*)(Interpreter&, const Args&);
GlobalFunction find_global(std::string_view name);

/// A method of a value, which is passed as `self`.
using MethodFunction = Result<Value> (*)(Interpreter&, const Value& self, const Args&);
MethodFunction find_string_method(std::string_view name);
MethodFunction find_list_method(std::string_view name, bool is_tuple);
MethodFunction find_dict_method(std::string_view name);

/// loop.changed(values...): whether they differ from the last call's.
Result<Value> loop_changed(Interpreter& interpreter, const Value& self, const Args& args);

/// Whether the method would change a list or dict: the sandbox hides those.
bool is_forbidden_method(const Value& self, std::string_view name);

}  // namespace cairn::jinja
