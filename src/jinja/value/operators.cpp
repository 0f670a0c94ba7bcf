#include "jinja/value/operators.h"

#include <cstring>

#include "jinja/value/characters.h"
#include "jinja/value/object.h"

namespace cairn::jinja {

size_t find_text(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // A needle so short that comparing it at every position is as fast as a better algorithm.
  constexpr size_t kShort = 32;
  if (needle.size() <= kShort) return text.find(needle, from);
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

Result<bool> equals(Budget& budget, const Value& a, const Value& b) {
  CAIRN_TRY_VOID(budget.step());
  if (a.is_integral() && b.is_integral()) return a.integral() == b.integral();
  if (a.is_number() && b.is_number()) return a.floating() == b.floating();
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::kUndefined)) return true;
  if (a.is_same(b)) return true;
  switch (a.kind()) {
    case Kind::kText:
      if (a.text().size() != b.text().size()) return false;
      CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(a.text().size())));
      return a.text() == b.text();
    case Kind::kList: {
      if (a.is_tuple() != b.is_tuple() || a.items().size() != b.items().size()) return false;
      for (size_t i = 0; i < a.items().size(); ++i) {
        CAIRN_TRY(const bool same, equals(budget, a.items()[i], b.items()[i]));
        if (!same) return false;
      }
      return true;
    }
    case Kind::kDict: {
      if (a.dict().items().size() != b.dict().items().size()) return false;
      for (const auto& [key, value] : a.dict().items()) {
        if (!key.is(Kind::kText)) CAIRN_TRY_VOID(budget.step(static_cast<int64_t>(b.dict().items().size()) / 8));
        const Value* other = b.dict().find(key);
        if (other == nullptr) return false;
        CAIRN_TRY(const bool same, equals(budget, value, *other));
        if (!same) return false;
      }
      return true;
    }
    default:
      return false;
  }
}

Result<bool> less(Budget& budget, const Value& a, const Value& b) {
  CAIRN_TRY_VOID(budget.step());
  if (a.is(Kind::kUndefined)) return undefined_error(a);
  if (b.is(Kind::kUndefined)) return undefined_error(b);
  if (a.is_integral() && b.is_integral()) return a.integral() < b.integral();
  if (a.is_number() && b.is_number()) return a.floating() < b.floating();
  if (a.is(Kind::kText) && b.is(Kind::kText)) {
    CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(std::min(a.text().size(), b.text().size()))));
    return a.text() < b.text();  // UTF-8 sorts by code point
  }
  if (a.is(Kind::kList) && b.is(Kind::kList) && a.is_tuple() == b.is_tuple()) {
    const size_t common = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < common; ++i) {
      CAIRN_TRY(const bool same, equals(budget, a.items()[i], b.items()[i]));
      if (!same) return less(budget, a.items()[i], b.items()[i]);
    }
    return a.items().size() < b.items().size();
  }
  return fail(Code::kInvalidArgument, "'<' not supported between instances of '{}' and '{}'", type_name(a),
              type_name(b));
}

namespace {

Result<bool> list_contains(Budget& budget, const std::vector<Value>& items, const Value& item) {
  for (const Value& candidate : items) {
    CAIRN_TRY(const bool same, equals(budget, candidate, item));
    if (same) return true;
  }
  return false;
}

Result<void> charge_lookup(Budget& budget, const Dict& dict, const Value& key) {
  return key.is(Kind::kText) ? budget.work(static_cast<int64_t>(key.text().size()))
                             : budget.step(static_cast<int64_t>(dict.items().size()) / 8);
}

std::unexpected<Error> unhashable(const Value& key) {
  return fail(Code::kInvalidArgument, "unhashable type: '{}'", type_name(key));
}

}  // namespace

Result<bool> contains(Budget& budget, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kText:
      if (!item.is(Kind::kText))
        return fail(Code::kInvalidArgument, "'in <string>' requires string as left operand, not {}", type_name(item));
      CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(container.text().size())));
      return find_text(container.text(), item.text()) != std::string_view::npos;
    case Kind::kList:
      return list_contains(budget, container.items(), item);
    case Kind::kDict:
      if (item.is(Kind::kDict) || (item.is(Kind::kList) && !item.is_tuple())) return unhashable(item);
      CAIRN_TRY_VOID(charge_lookup(budget, container.dict(), item));
      return container.dict().find(item) != nullptr;
    case Kind::kUndefined:
      return false;
    case Kind::kObject: {
      if (!is_iterable(container)) break;
      CAIRN_TRY(const Value list, to_list(budget, container));
      return list_contains(budget, list.items(), item);
    }
    default:
      break;
  }
  return fail(Code::kInvalidArgument, "argument of type '{}' is not iterable", type_name(container));
}

Result<bool> compare(Budget& budget, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kEqual:
      return equals(budget, a, b);
    case CompareOp::kNotEqual: {
      CAIRN_TRY(const bool same, equals(budget, a, b));
      return !same;
    }
    case CompareOp::kIn:
      return contains(budget, b, a);
    case CompareOp::kNotIn: {
      CAIRN_TRY(const bool is_in, contains(budget, b, a));
      return !is_in;
    }
    case CompareOp::kLess:
      return less(budget, a, b);
    case CompareOp::kGreater:
      return less(budget, b, a);
    case CompareOp::kLessEqual:
    case CompareOp::kGreaterEqual: {
      // Not the negation of the other comparison: NaN is unordered.
      const bool swapped = op == CompareOp::kGreaterEqual;
      CAIRN_TRY(const bool before, less(budget, swapped ? b : a, swapped ? a : b));
      if (before) return true;
      return equals(budget, a, b);
    }
  }
  return false;
}

Result<int64_t> length(const Value& value) {
  switch (value.kind()) {
    case Kind::kText:
      return static_cast<int64_t>(char_count(value.text()));
    case Kind::kList:
      return static_cast<int64_t>(value.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().items().size());
    case Kind::kUndefined:
      return 0;
    default:
      break;
  }
  if (const auto* range = value.object<Range>()) return range->size();
  if (const auto* view = value.object<DictView>()) return static_cast<int64_t>(view->dict.dict().items().size());
  if (const auto* loop = value.object<Loop>()) return loop->size();
  return fail(Code::kInvalidArgument, "object of type '{}' has no len()", type_name(value));
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kText:
    case Kind::kList:
    case Kind::kDict:
    case Kind::kUndefined:
      return true;
    default:
      break;
  }
  return value.object<Range>() != nullptr || value.object<DictView>() != nullptr || value.object<Iterator>() != nullptr;
}

namespace {

Result<Value> characters_of(Budget& budget, const Piece& text) {
  std::vector<Value> items;
  const std::vector<uint32_t> offsets = char_offsets(text.bytes());
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    CAIRN_TRY(Value character, make_text(budget, text.substr(offsets[i], offsets[i + 1] - offsets[i])));
    items.push_back(std::move(character));
  }
  return make_list(budget, std::move(items));
}

Result<Value> dict_part(Budget& budget, const Dict& dict, DictView::Part part) {
  std::vector<Value> items;
  items.reserve(dict.items().size());
  for (const auto& [key, value] : dict.items()) {
    if (part == DictView::Part::kItems) {
      CAIRN_TRY(Value pair, make_list(budget, {key, value}, ListKind::kTuple));
      items.push_back(std::move(pair));
    } else {
      items.push_back(part == DictView::Part::kKeys ? key : value);
    }
  }
  return make_list(budget, std::move(items));
}

}  // namespace

Result<Value> to_list(Budget& budget, const Value& value) {
  switch (value.kind()) {
    case Kind::kText:
      return characters_of(budget, value.piece());
    case Kind::kList:
      return value;
    case Kind::kDict:
      return dict_part(budget, value.dict(), DictView::Part::kKeys);
    case Kind::kUndefined:
      return make_list(budget, {});
    default:
      break;
  }
  if (const auto* view = value.object<DictView>()) return dict_part(budget, view->dict.dict(), view->part);
  if (const auto* range = value.object<Range>()) {
    std::vector<Value> items;
    items.reserve(static_cast<size_t>(range->size()));
    for (int64_t i = 0; i < range->size(); ++i) items.push_back(range->at(i));
    return make_list(budget, std::move(items));
  }
  if (auto* iterator = value.object<Iterator>()) {
    const size_t from = std::exchange(iterator->next, iterator->list.items().size());
    if (from == 0) return iterator->list;
    const auto& items = iterator->list.items();
    return make_list(budget, std::vector<Value>(items.begin() + static_cast<std::ptrdiff_t>(from), items.end()));
  }
  return fail(Code::kInvalidArgument, "'{}' object is not iterable", type_name(value));
}

}  // namespace cairn::jinja
