// Methods of lists, tuples and dicts that change nothing.
#include <algorithm>

#include "jinja/interpret/functions.h"
#include "jinja/interpret/interpreter.h"
#include "jinja/value/operators.h"

namespace cairn::jinja {
namespace {

Result<Value> list_index(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("index", args, {"value", "start", "stop"}, 1));
  const auto size = static_cast<int64_t>(self.items().size());
  CAIRN_TRY(int64_t start, bound.integer(1, 0));
  CAIRN_TRY(int64_t stop, bound.integer(2, size));
  if (start < 0) start = std::max<int64_t>(0, start + size);
  if (stop < 0) stop += size;
  for (int64_t i = start; i < std::min(stop, size); ++i) {
    CAIRN_TRY(const bool same, equals(interpreter.budget(), self.items()[static_cast<size_t>(i)], bound[0]));
    if (same) return Value::integer(i);
  }
  return fail(Code::kInvalidArgument, "the value is not in the {}", type_name(self));
}

Result<Value> list_count(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("count", args, {"value"}, 1));
  int64_t count = 0;
  for (const Value& item : self.items()) {
    CAIRN_TRY(const bool same, equals(interpreter.budget(), item, bound[0]));
    count += same;
  }
  return Value::integer(count);
}

Result<Value> copy(Interpreter&, const Value& self, const Args& args) {
  CAIRN_TRY_VOID(bind("copy", args, {}));
  return self;  // an immutable value needs no copy
}

Result<Value> dict_get(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("get", args, {"key", "default"}, 1));
  CAIRN_TRY(const bool found, contains(interpreter.budget(), self, bound[0]));
  if (found) return *self.dict().find(bound[0]);
  return bound.has(1) ? bound[1] : Value();
}

template <DictView::Part kPart>
Result<Value> dict_view(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY_VOID(bind("dict method", args, {}));
  CAIRN_TRY(auto view, make_object<DictView>(interpreter.budget(), self.depth(), self, kPart));
  return Value(std::shared_ptr<Object>(std::move(view)));
}

constexpr std::string_view kForbiddenList[] = {"append", "reverse", "insert", "sort",
                                               "extend", "remove",  "pop",    "clear"};
constexpr std::string_view kForbiddenDict[] = {"clear", "pop", "popitem", "setdefault", "update", "fromkeys"};

}  // namespace

MethodFunction find_list_method(std::string_view name, bool is_tuple) {
  if (name == "index") return list_index;
  if (name == "count") return list_count;
  if (name == "copy" && !is_tuple) return copy;
  return nullptr;
}

MethodFunction find_dict_method(std::string_view name) {
  if (name == "get") return dict_get;
  if (name == "items") return dict_view<DictView::Part::kItems>;
  if (name == "keys") return dict_view<DictView::Part::kKeys>;
  if (name == "values") return dict_view<DictView::Part::kValues>;
  if (name == "copy") return copy;
  return nullptr;
}

bool is_forbidden_method(const Value& self, std::string_view name) {
  const auto among = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (self.is(Kind::kList)) return !self.is_tuple() && among(kForbiddenList);
  return self.is(Kind::kDict) && among(kForbiddenDict);
}

}  // namespace cairn::jinja
