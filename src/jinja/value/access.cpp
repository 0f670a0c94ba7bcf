// value.name, value[key], value[start:stop:step]
#include <algorithm>
#include <limits>
#include <vector>

#include "jinja/interpret/functions.h"
#include "jinja/value/characters.h"
#include "jinja/value/object.h"
#include "jinja/value/operators.h"
#include "jinja/value/repr.h"

namespace cairn::jinja {
namespace {

constexpr size_t kNamesInErrorMax = 200;  // bytes of a key that an error quotes

// The name of a value in Jinja's message "... has no attribute": "dict object", "None".
std::string in_words(const Value& value) {
  if (value.is(Kind::kNone)) return "None";
  return fmt::format("{} object", type_name(value));
}

Value no_attribute(const Value& value, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", in_words(value), name.substr(0, kNamesInErrorMax)));
}

MethodFunction find_method(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::kText:
      return find_string_method(name);
    case Kind::kList:
      return find_list_method(name, value.is_tuple());
    case Kind::kDict:
      return find_dict_method(name);
    default:
      return nullptr;
  }
}

Result<Value> cycler_reset(Interpreter&, const Value& self, const Args& args) {
  CAIRN_TRY_VOID(bind("reset", args, {}));
  self.object<Cycler>()->position = 0;
  return Value();
}

Result<Value> cycler_next(Interpreter&, const Value& self, const Args& args) {
  CAIRN_TRY_VOID(bind("next", args, {}));
  auto* cycler = self.object<Cycler>();
  const auto& items = cycler->items.items();
  const size_t at = cycler->position;
  cycler->position = (at + 1) % items.size();
  return items[at];
}

Result<Value> loop_cycle(Interpreter&, const Value& self, const Args& args) {
  if (args.positional.empty()) return fail(Code::kInvalidArgument, "no items for cycling given");
  const auto index = static_cast<size_t>(std::max<int64_t>(0, self.object<Loop>()->index0));
  return args.positional[index % args.positional.size()];
}

Result<Value> loop_attribute(Budget& budget, const Value& value, const Loop& loop, std::string_view name) {
  const auto& items = loop.items.items();
  const int64_t index0 = loop.index0;
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "first") return Value(index0 == 0);
  if (name == "last") return Value(index0 + 1 >= loop.size());
  if (name == "length") return Value::integer(loop.size());
  if (name == "revindex") return Value::integer(loop.size() - index0);
  if (name == "revindex0") return Value::integer(loop.size() - index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem")
    return index0 > 0 ? items[static_cast<size_t>(index0) - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return index0 + 1 < loop.size() ? items[static_cast<size_t>(index0) + 1]
                                    : Value::undefined("there is no next item");
  if (name == "cycle" || name == "changed") {
    CAIRN_TRY(auto method,
              make_object<Method>(budget, value.depth(), value, name, name == "cycle" ? loop_cycle : loop_changed));
    return Value(std::shared_ptr<Object>(std::move(method)));
  }
  return no_attribute(value, name);
}

// Attributes of values that are neither text, list nor dict. `found` is set if there is one.
Result<Value> object_attribute(Budget& budget, const Value& value, std::string_view name) {
  if (const auto* space = value.object<Namespace>()) {
    const Value* attribute = space->find(name);
    return attribute == nullptr ? no_attribute(value, name) : *attribute;
  }
  if (const auto* loop = value.object<Loop>()) return loop_attribute(budget, value, *loop, name);
  if (const auto* macro = value.object<Macro>()) {
    if (name == "name") return make_text(budget, Piece::own(macro->body.name));
    if (name != "arguments") return no_attribute(value, name);
    std::vector<Value> names;
    for (const auto& [id, parameter] : macro->body.parameters) {
      CAIRN_TRY(Value text, make_text(budget, Piece::own(parameter)));
      names.push_back(std::move(text));
    }
    return make_list(budget, std::move(names), ListKind::kTuple);
  }
  if (const auto* cycler = value.object<Cycler>()) {
    if (name == "current") return cycler->items.items()[cycler->position];
    if (name == "next" || name == "reset") {
      CAIRN_TRY(auto method,
                make_object<Method>(budget, value.depth(), value, name, name == "next" ? cycler_next : cycler_reset));
      return Value(std::shared_ptr<Object>(std::move(method)));
    }
  }
  return no_attribute(value, name);
}

// A method, or undefined.
Result<Value> method_or_undefined(Budget& budget, const Value& value, std::string_view name) {
  if (const MethodFunction function = find_method(value, name)) {
    CAIRN_TRY(auto method, make_object<Method>(budget, value.depth(), value, name, function));
    return Value(std::shared_ptr<Object>(std::move(method)));
  }
  if (is_forbidden_method(value, name))
    return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(value)));
  if (value.is(Kind::kList) && value.list_ref()->kind == ListKind::kGroup) {
    if (name == "grouper") return value.items()[0];
    if (name == "list") return value.items()[1];
  }
  return no_attribute(value, name);
}

// Resolves Python's index, from the end if negative; -1 if it is out of range.
int64_t resolve_index(Int index, int64_t size) {
  if (index < 0) index += size;
  return index < 0 || index >= size ? -1 : static_cast<int64_t>(index);
}

Result<Value> no_element(Budget& budget, const Value& value, const Value& key) {
  Buffer words(budget);
  CAIRN_TRY_VOID(put_repr(words, key));
  return Value::undefined(
      fmt::format("{} has no element {}", in_words(value), words.text().substr(0, kNamesInErrorMax)));
}

struct SliceRange {
  int64_t start, stop, step;
};

// Python's slice.indices().
Result<SliceRange> slice_range(int64_t size, const Value& start, const Value& stop, const Value& step) {
  const auto integer = [](const Value& value, Int missing) -> Result<Int> {
    if (value.is(Kind::kNone)) return missing;
    if (value.is(Kind::kUndefined)) return undefined_error(value);
    if (!value.is_integral())
      return fail(Code::kInvalidArgument, "slice indices must be integers or None, not '{}'", type_name(value));
    return value.integral();
  };
  CAIRN_TRY(const Int by, integer(step, 1));
  if (by == 0) return fail(Code::kInvalidArgument, "slice step cannot be zero");
  const Int lowest = by < 0 ? -1 : 0;
  const Int highest = by < 0 ? size - 1 : size;
  const auto bound = [&](Int at) {
    if (at < 0) at = std::max<Int>(at, -Int{size} - 1) + size;
    return static_cast<int64_t>(std::clamp<Int>(at, lowest, highest));
  };
  SliceRange range{};
  range.step = static_cast<int64_t>(std::clamp<Int>(by, -Int{size} - 1, Int{size} + 1));
  CAIRN_TRY(const Int from, integer(start, 0));
  CAIRN_TRY(const Int to, integer(stop, 0));
  range.start = start.is(Kind::kNone) ? static_cast<int64_t>(by < 0 ? highest : lowest) : bound(from);
  range.stop = stop.is(Kind::kNone) ? static_cast<int64_t>(by < 0 ? lowest : highest) : bound(to);
  return range;
}

Result<Value> slice_text(Budget& budget, const Value& value, const Value& start, const Value& stop, const Value& step) {
  const std::string& text = value.text();
  CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(text.size())));
  const std::vector<uint32_t> offsets = char_offsets(text);
  CAIRN_TRY(const SliceRange range, slice_range(static_cast<int64_t>(offsets.size()) - 1, start, stop, step));
  if (range.step == 1) {
    if (range.start >= range.stop) return make_text(budget, "", value.is_markup());
    const size_t begin = offsets[static_cast<size_t>(range.start)];
    const size_t end = offsets[static_cast<size_t>(range.stop)];
    return make_text(budget, value.piece().substr(begin, end - begin), value.is_markup());
  }
  Buffer out(budget);
  Derivation characters(out, value.piece());
  for (int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step) {
    const auto at = static_cast<size_t>(i);
    const auto character = std::string_view(text).substr(offsets[at], offsets[at + 1] - offsets[at]);
    CAIRN_TRY_VOID(characters.put(character, character));
  }
  CAIRN_TRY_VOID(characters.finish());
  return make_text(std::move(out), value.is_markup());
}

}  // namespace

Result<Value> get_attribute(Budget& budget, const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return undefined_error(value);
    case Kind::kDict: {
      CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(name.size())));
      if (find_method(value, name) == nullptr && !is_forbidden_method(value, name))
        if (const Value* found = value.dict().find(name)) return *found;
      return method_or_undefined(budget, value, name);
    }
    case Kind::kText:
    case Kind::kList:
      return method_or_undefined(budget, value, name);
    case Kind::kObject:
      return object_attribute(budget, value, name);
    default:
      return no_attribute(value, name);
  }
}

Result<Value> get_item(Budget& budget, const Value& value, const Value& key) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return undefined_error(value);
    case Kind::kDict:
      CAIRN_TRY_VOID(budget.step(key.is(Kind::kText) ? static_cast<int64_t>(key.text().size()) / Budget::kBytesPerStep
                                                     : static_cast<int64_t>(value.dict().items().size()) / 8));
      if (const Value* found = value.dict().find(key)) return *found;
      break;
    case Kind::kList:
      if (!key.is_integral()) break;
      if (const int64_t at = resolve_index(key.integral(), static_cast<int64_t>(value.items().size())); at >= 0)
        return value.items()[static_cast<size_t>(at)];
      break;
    case Kind::kText: {
      if (!key.is_integral()) break;
      const std::string& text = value.text();
      CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(text.size())));
      const int64_t at = resolve_index(key.integral(), static_cast<int64_t>(char_count(text)));
      if (at < 0) break;
      const size_t begin = char_offset(text, static_cast<size_t>(at));
      const size_t bytes = char_offset(std::string_view(text).substr(begin), 1);
      return make_text(budget, value.piece().substr(begin, bytes), value.is_markup());
    }
    case Kind::kObject:
      if (const auto* range = value.object<Range>(); range != nullptr && key.is_integral()) {
        const int64_t at = resolve_index(key.integral(), range->size());
        if (at >= 0) return range->at(at);
      }
      break;
    default:
      break;
  }
  if (!key.is(Kind::kText)) return no_element(budget, value, key);
  if (value.is(Kind::kObject)) return object_attribute(budget, value, key.text());
  return method_or_undefined(budget, value, key.text());
}

Result<Value> get_slice(Budget& budget, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is(Kind::kUndefined)) return undefined_error(value);
  if (value.is(Kind::kText)) return slice_text(budget, value, start, stop, step);
  const bool is_range = value.object<Range>() != nullptr;
  if (!value.is(Kind::kList) && !is_range)
    return fail(Code::kInvalidArgument, "'{}' object cannot be sliced", type_name(value));
  if (is_range) {
    const auto& whole = *value.object<Range>();
    CAIRN_TRY(const SliceRange part, slice_range(whole.size(), start, stop, step));
    const auto place = [&](int64_t index) { return static_cast<int64_t>(Int{whole.start} + Int{index} * whole.step); };
    CAIRN_TRY(auto sliced, make_object<Range>(budget, 0, place(part.start), place(part.stop), part.step * whole.step));
    return Value(std::shared_ptr<Object>(std::move(sliced)));
  }
  CAIRN_TRY(const Value list, to_list(budget, value));
  const auto& items = list.items();
  CAIRN_TRY(const SliceRange range, slice_range(static_cast<int64_t>(items.size()), start, stop, step));
  std::vector<Value> out;
  for (int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step)
    out.push_back(items[static_cast<size_t>(i)]);
  return make_list(budget, std::move(out), list.is_tuple() ? ListKind::kTuple : ListKind::kList);
}

}  // namespace cairn::jinja
