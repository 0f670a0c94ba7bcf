// Filters over lists and dicts as a whole.
#include <algorithm>

#include "jinja/builtins/escape.h"
#include "jinja/builtins/filters.h"
#include "jinja/builtins/sort.h"
#include "jinja/interpret/interpreter.h"
#include "jinja/value/characters.h"
#include "jinja/value/operators.h"
#include "jinja/value/repr.h"

namespace cairn::jinja {
namespace {

// The keys by which a list is sorted or grouped.
Result<std::vector<Value>> keys_of(Budget& budget, const std::vector<Value>& items, const AttributePath& path,
                                   bool case_sensitive, const Value* missing = nullptr) {
  std::vector<Value> keys;
  keys.reserve(items.size());
  for (const Value& item : items) {
    CAIRN_TRY_VOID(budget.step());
    CAIRN_TRY(Value key, path.follow(budget, item, missing));
    if (!case_sensitive) {
      CAIRN_TRY(key, ignore_case(budget, key));
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<Value> reordered(Budget& budget, const std::vector<Value>& items, const std::vector<size_t>& places) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (const size_t place : places) out.push_back(items[place]);
  return make_list(budget, std::move(out));
}

Result<Value> to_plain_list(Budget& budget, const Value& value) {
  CAIRN_TRY(const Value list, to_list(budget, value));
  if (!list.is_tuple()) return list;
  return make_list(budget, list.items());
}

}  // namespace

Result<Value> ignore_case(Budget& budget, const Value& value) {
  if (!value.is(Kind::kText)) return value;
  return make_mapped(budget, value, to_lower(value.text()));
}

namespace filters {

Result<Value> first(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("first", args, {}));
  if (auto* iterator = input.object<Iterator>(); iterator != nullptr && iterator->next < iterator->list.items().size())
    return iterator->list.items()[iterator->next++];
  CAIRN_TRY(const Value list, to_list(interpreter.budget(), input));
  if (list.items().empty()) return Value::undefined("No first item, sequence was empty.");
  return list.items().front();
}

Result<Value> last(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("last", args, {}));
  if (input.object<Iterator>() != nullptr)
    return fail(Code::kInvalidArgument, "'{}' object is not reversible", type_name(input));
  CAIRN_TRY(const Value list, to_list(interpreter.budget(), input));
  if (list.items().empty()) return Value::undefined("No last item, sequence was empty.");
  return list.items().back();
}

Result<Value> length(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("length", args, {}));
  if (input.is(Kind::kText)) CAIRN_TRY_VOID(interpreter.budget().work(static_cast<int64_t>(input.text().size())));
  CAIRN_TRY(const int64_t count, jinja::length(input));
  return Value::integer(count);
}

Result<Value> list(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("list", args, {}));
  return to_plain_list(interpreter.budget(), input);
}

Result<Value> join(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("join", args, {"d", "attribute"}));
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value separator, bound.has(0) ? to_text(budget, bound[0]) : make_text(budget, ""));
  CAIRN_TRY(const AttributePath path, AttributePath::parse(budget, bound.has(1) ? bound[1] : Value()));
  CAIRN_TRY(const Value items, to_list(budget, input));
  Buffer out(budget);
  for (size_t i = 0; i < items.items().size(); ++i) {
    CAIRN_TRY_VOID(budget.step());
    if (i > 0) CAIRN_TRY_VOID(out.put(separator.piece()));
    CAIRN_TRY(const Value part, path.follow(budget, items.items()[i]));
    CAIRN_TRY_VOID(put_str(out, part));
  }
  return make_text(std::move(out));
}

Result<Value> reverse(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("reverse", args, {}));
  Budget& budget = interpreter.budget();
  if (input.is(Kind::kText)) return get_slice(budget, input, Value(), Value(), Value::integer(-1));
  CAIRN_TRY(const Value list, to_list(budget, input));
  std::vector<Value> items(list.items().rbegin(), list.items().rend());
  return make_iterator(budget, std::move(items));
}

Result<Value> sort(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("sort", args, {"reverse", "case_sensitive", "attribute"}));
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value list, to_list(budget, input));
  std::vector<Value> keys;
  if (bound.given(2) && bound[2].is(Kind::kText) && bound[2].text().find(',') != std::string::npos) {
    // With several attributes the key is the tuple of their values.
    std::vector<AttributePath> paths;
    std::string_view rest = bound[2].text();
    while (true) {
      const size_t comma = rest.find(',');
      CAIRN_TRY(const Value part, make_text(budget, bound[2].piece().part(rest.substr(0, comma))));
      CAIRN_TRY(AttributePath path, AttributePath::parse(budget, part));
      paths.push_back(std::move(path));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    for (const Value& item : list.items()) {
      std::vector<Value> parts;
      for (const AttributePath& path : paths) {
        CAIRN_TRY(Value part, path.follow(budget, item));
        if (!bound.boolean(1, false)) {
          CAIRN_TRY(part, ignore_case(budget, part));
        }
        parts.push_back(std::move(part));
      }
      CAIRN_TRY(Value key, make_list(budget, std::move(parts)));
      keys.push_back(std::move(key));
    }
  } else {
    CAIRN_TRY(const AttributePath path, AttributePath::parse(budget, bound.has(2) ? bound[2] : Value()));
    CAIRN_TRY(keys, keys_of(budget, list.items(), path, bound.boolean(1, false)));
  }
  CAIRN_TRY(const std::vector<size_t> places, sorted_places(budget, keys, bound.boolean(0, false)));
  return reordered(budget, list.items(), places);
}

Result<Value> unique(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("unique", args, {"case_sensitive", "attribute"}));
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value list, to_list(budget, input));
  CAIRN_TRY(const AttributePath path, AttributePath::parse(budget, bound.has(1) ? bound[1] : Value()));
  CAIRN_TRY(const std::vector<Value> keys, keys_of(budget, list.items(), path, bound.boolean(0, false)));
  std::vector<Value> out;
  DictBuilder seen(budget);
  int64_t count = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    CAIRN_TRY_VOID(seen.add(keys[i], Value()));
    if (seen.size() == count) continue;
    count = seen.size();
    out.push_back(list.items()[i]);
  }
  return make_iterator(budget, std::move(out));
}

Result<Value> groupby(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("groupby", args, {"attribute", "default", "case_sensitive"}, 1));
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value list, to_list(budget, input));
  CAIRN_TRY(const AttributePath path, AttributePath::parse(budget, bound[0]));
  const Value* missing = bound.given(1) ? &bound[1] : nullptr;
  const bool case_sensitive = bound.boolean(2, false);
  CAIRN_TRY(const std::vector<Value> keys, keys_of(budget, list.items(), path, case_sensitive, missing));
  CAIRN_TRY(const std::vector<size_t> places, sorted_places(budget, keys, false));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < places.size();) {
    std::vector<Value> members;
    size_t end = begin;
    for (; end < places.size(); ++end) {
      CAIRN_TRY(const bool same, equals(budget, keys[places[begin]], keys[places[end]]));
      if (!same) break;
      members.push_back(list.items()[places[end]]);
    }
    // The group is named by its first item's own key, not by the lower-case one.
    CAIRN_TRY(Value grouper, path.follow(budget, members.front(), missing));
    CAIRN_TRY(Value group, make_list(budget, std::move(members)));
    CAIRN_TRY(Value pair, make_list(budget, {std::move(grouper), std::move(group)}, ListKind::kGroup));
    groups.push_back(std::move(pair));
    begin = end;
  }
  return make_list(budget, std::move(groups));
}

Result<Value> dictsort(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("dictsort", args, {"case_sensitive", "by", "reverse"}));
  CAIRN_TRY(const std::string_view by, bound.text(1, "key"));
  if (by != "key" && by != "value")
    return fail(Code::kInvalidArgument, "You can only sort by either \"key\" or \"value\"");
  if (input.is(Kind::kUndefined)) return undefined_error(input);
  if (!input.is(Kind::kDict))
    return fail(Code::kInvalidArgument, "the filter 'dictsort' wants a mapping, not {}", type_name(input));
  Budget& budget = interpreter.budget();
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const auto& [key, value] : input.dict().items()) {
    CAIRN_TRY(Value pair, make_list(budget, {key, value}, ListKind::kTuple));
    pairs.push_back(std::move(pair));
    Value sort_key = by == "key" ? key : value;
    if (!bound.boolean(0, false)) {
      CAIRN_TRY(sort_key, ignore_case(budget, sort_key));
    }
    keys.push_back(std::move(sort_key));
  }
  CAIRN_TRY(const std::vector<size_t> places, sorted_places(budget, keys, bound.boolean(2, false)));
  return reordered(budget, pairs, places);
}

Result<Value> items(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("items", args, {}));
  Budget& budget = interpreter.budget();
  if (input.is(Kind::kUndefined)) return make_iterator(budget, {});
  if (!input.is(Kind::kDict)) return fail(Code::kInvalidArgument, "Can only get item pairs from a mapping.");
  CAIRN_TRY(auto view, make_object<DictView>(budget, input.depth(), input, DictView::Part::kItems));
  CAIRN_TRY(const Value pairs, to_list(budget, Value(std::shared_ptr<Object>(std::move(view)))));
  return make_iterator(budget, pairs.items());
}

Result<Value> batch(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("batch", args, {"linecount", "fill_with"}, 1));
  CAIRN_TRY(const int64_t size, bound.integer(0, 0));
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value list, to_list(budget, input));
  std::vector<Value> rows;
  std::vector<Value> row;
  const auto end_row = [&]() -> Result<void> {
    CAIRN_TRY(Value made, make_list(budget, std::exchange(row, {})));
    rows.push_back(std::move(made));
    return {};
  };
  for (const Value& item : list.items()) {
    if (static_cast<int64_t>(row.size()) == size) CAIRN_TRY_VOID(end_row());
    row.push_back(item);
  }
  if (!row.empty()) {
    while (bound.given(1) && static_cast<int64_t>(row.size()) < size) {
      CAIRN_TRY_VOID(budget.step());
      row.push_back(bound[1]);
    }
    CAIRN_TRY_VOID(end_row());
  }
  return make_iterator(budget, std::move(rows));
}

Result<Value> slice(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("slice", args, {"slices", "fill_with"}, 1));
  CAIRN_TRY(const int64_t slices, bound.integer(0, 0));
  if (slices == 0) return fail(Code::kInvalidArgument, "integer division or modulo by zero");
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value list, to_list(budget, input));
  const auto& items = list.items();
  const auto size = static_cast<int64_t>(items.size());
  std::vector<Value> columns;
  int64_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    CAIRN_TRY_VOID(budget.step());
    const bool extra = i < size % slices;
    const int64_t end = begin + size / slices + extra;
    std::vector<Value> column(items.begin() + begin, items.begin() + end);
    if (bound.given(1) && !extra) column.push_back(bound[1]);
    CAIRN_TRY(Value made, make_list(budget, std::move(column)));
    columns.push_back(std::move(made));
    begin = end;
  }
  return make_iterator(budget, std::move(columns));
}

}  // namespace filters
}  // namespace cairn::jinja
