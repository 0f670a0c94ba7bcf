/// Values with identity, which a template calls, changes or iterates once.
///
/// Only namespaces, loops asked for changes, and scopes that an object holds can be part of a cycle; the interpreter
/// keeps all of these until the end and then empties them (Interpreter::keep), so that nothing leaks and no long chain
/// of them is destroyed by recursion.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/interpret/functions.h"
#include "jinja/parse/ast_statement.h"
#include "jinja/value/value.h"

namespace cairn::jinja {

/// Variables of one level: of the template, a macro call, or one iteration of a loop.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<NameId, Value>> variables;

  const Value* find(NameId id) const {
    for (const auto& [name, value] : variables)
      if (name == id) return &value;
    return nullptr;
  }
  void set(NameId id, Value value) {
    for (auto& [name, place] : variables) {
      if (name != id) continue;
      place = std::move(value);
      return;
    }
    variables.emplace_back(id, std::move(value));
  }
};
using ScopeRef = std::shared_ptr<Scope>;

/// namespace(): the only thing that `set` can change from an inner scope.
struct Namespace : Object {
  static constexpr size_t kAttributesMax = 1000;
  std::string_view type_name() const override { return "Namespace"; }
  void forget() override { attributes.clear(); }

  const Value* find(std::string_view name) const {
    for (const auto& [key, value] : attributes)
      if (key == name) return &value;
    return nullptr;
  }
  std::vector<std::pair<std::string, Value>> attributes;
};

struct Range : Object {
  static constexpr int64_t kLengthMax = 100'000;  // as in Jinja's sandbox
  // Bound of start, stop and step, so that slices cannot overflow.
  static constexpr int64_t kBoundMax = int64_t{1} << 40;
  Range(int64_t start_at, int64_t stop_at, int64_t step_by) : start(start_at), stop(stop_at), step(step_by) {}
  std::string_view type_name() const override { return "range"; }
  bool truthy() const override { return size() > 0; }
  int64_t size() const {
    const Int span = step > 0 ? Int{stop} - start : Int{start} - stop;
    const Int stride = step > 0 ? Int{step} : -Int{step};
    return span <= 0 ? 0 : static_cast<int64_t>((span + stride - 1) / stride);
  }
  Value at(int64_t index) const { return Value(Int{start} + Int{index} * step); }
  int64_t start, stop, step;
};

/// A generator's values, which can be iterated once. They are computed at once, not on demand.
struct Iterator : Object {
  explicit Iterator(Value list_of, std::string_view name_of = "generator") : list(std::move(list_of)), name(name_of) {}
  std::string_view type_name() const override { return name; }
  Value list;
  size_t next = 0;
  std::string_view name;
};

/// dict.keys(), .values(), .items()
struct DictView : Object {
  enum class Part : uint8_t { kKeys, kValues, kItems };
  DictView(Value dict_of, Part part_of) : dict(std::move(dict_of)), part(part_of) {}
  std::string_view type_name() const override {
    return part == Part::kKeys ? "dict_keys" : part == Part::kValues ? "dict_values" : "dict_items";
  }
  bool truthy() const override { return !dict.dict().items().empty(); }
  Value dict;
  Part part;
};

struct Function : Object {
  Function(std::string_view name_of, GlobalFunction function_of) : name(name_of), function(function_of) {}
  std::string_view type_name() const override { return "function"; }
  std::string name;
  GlobalFunction function;
};

/// A method bound to its value: `text.upper`.
struct Method : Object {
  Method(Value self_of, std::string_view name_of, MethodFunction function_of)
      : self(std::move(self_of)), name(name_of), function(function_of) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  Value self;
  std::string name;
  MethodFunction function;
};

/// A macro or the `caller` of a call block, with the scope in which it was written.
struct Macro : Object {
  Macro(const MacroBody& body_of, ScopeRef scope_of) : body(body_of), scope(std::move(scope_of)) {}
  std::string_view type_name() const override { return "Macro"; }
  const MacroBody& body;
  ScopeRef scope;
};

/// The variable `loop`.
struct Loop : Object {
  Loop(const ForStatement& statement_of, ScopeRef scope_of, Value items_of, int64_t depth_of)
      : statement(statement_of), scope(std::move(scope_of)), items(std::move(items_of)), depth0(depth_of) {}
  std::string_view type_name() const override { return "LoopContext"; }
  void forget() override { changed.clear(); }
  int64_t size() const { return static_cast<int64_t>(items.items().size()); }
  const ForStatement& statement;
  ScopeRef scope;  ///< scope around the loop; held only if the loop is recursive
  Value items;
  int64_t index0 = -1;
  int64_t depth0;
  std::vector<Value> changed;  ///< the last arguments of loop.changed()
  bool changed_asked = false;
};

struct Cycler : Object {
  explicit Cycler(Value items_of) : items(std::move(items_of)) {}
  std::string_view type_name() const override { return "Cycler"; }
  Value items;
  size_t position = 0;
};

struct Joiner : Object {
  explicit Joiner(Value separator_of) : separator(std::move(separator_of)) {}
  std::string_view type_name() const override { return "Joiner"; }
  Value separator;
  bool used = false;
};

/// The variable `self`: defined, but without use as there is no template inheritance.
struct Self : Object {
  std::string_view type_name() const override { return "TemplateReference"; }
};

/// Errors: too many attributes, memory.
Result<void> set_namespace_attribute(Budget& budget, Namespace& space, std::string_view name, Value value);

/// `held_depth` is the depth of the deepest value in it.
template <class T, class... A>
Result<std::shared_ptr<T>> make_object(Budget& budget, int32_t held_depth, A&&... args) {
  if (held_depth >= budget.limits().depth_max)
    return fail(Code::kTooLarge, "values nest deeper than {} levels", budget.limits().depth_max);
  auto object = std::make_shared<T>(std::forward<A>(args)...);
  CAIRN_TRY_VOID(object->charge.take(budget, static_cast<int64_t>(sizeof(T))));
  object->depth = held_depth + 1;
  return object;
}

}  // namespace cairn::jinja
