#include "jinja/value/value.h"

#include <algorithm>

#include "jinja/value/characters.h"

namespace cairn::jinja {

Value Value::undefined(std::string message) {
  Value value;
  value.data_ = std::make_shared<const Undefined>(Undefined{std::move(message)});
  return value;
}

const std::string& Value::text() const { return text_ref()->bytes; }
Piece Value::piece() const { return {text_ref()->bytes, text_ref()->origin}; }
bool Value::is_markup() const { return text_ref()->markup; }
const std::vector<Value>& Value::items() const { return list_ref()->items; }
bool Value::is_tuple() const { return list_ref()->kind >= ListKind::kTuple; }

int32_t Value::depth() const {
  switch (kind()) {
    case Kind::kList:
      return list_ref()->depth;
    case Kind::kDict:
      return dict().depth();
    case Kind::kObject:
      return object_ref()->depth;
    default:
      return 0;
  }
}

bool Value::is_same(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kNone:
      return true;
    case Kind::kUndefined:
      return &undefined() == &other.undefined();
    case Kind::kBool:
    case Kind::kInt:
      return integral() == other.integral();
    case Kind::kFloat:
      return floating() == other.floating();
    case Kind::kText:
      return text_ref() == other.text_ref();
    case Kind::kList:
      return list_ref() == other.list_ref();
    case Kind::kDict:
      return &dict() == &other.dict();
    case Kind::kObject:
      return object_ref() == other.object_ref();
  }
  return false;
}

std::ptrdiff_t Dict::position(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? -1 : static_cast<std::ptrdiff_t>(found->second);
  }
  for (size_t i = 0; i < items_.size(); ++i)
    if (items_[i].first.is(Kind::kText) && items_[i].first.text() == key) return static_cast<std::ptrdiff_t>(i);
  return -1;
}

namespace {

// Compares keys other than strings as Python does. Lists and dicts are refused before this.
bool same_key(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.integral() == b.integral();
  if (a.is_number() && b.is_number()) return a.floating() == b.floating();
  if (a.is(Kind::kText) && b.is(Kind::kText)) return a.text() == b.text();
  if (a.is(Kind::kUndefined) && b.is(Kind::kUndefined)) return true;
  if (a.is(Kind::kList) && b.is(Kind::kList))
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), same_key);
  return a.is_same(b);
}

// Tuples can be keys only if they are short and flat, so that comparing two stays cheap.
bool hashable(const Value& key) {
  constexpr size_t kTupleKeyMax = 16;
  if (key.is(Kind::kList)) return key.is_tuple() && key.depth() == 1 && key.items().size() <= kTupleKeyMax;
  return !key.is(Kind::kDict);
}

}  // namespace

std::ptrdiff_t Dict::position(const Value& key) const {
  if (key.is(Kind::kText)) return position(key.text());
  for (size_t i = 0; i < items_.size(); ++i)
    if (same_key(items_[i].first, key)) return static_cast<std::ptrdiff_t>(i);
  return -1;
}

const Value* Dict::find(std::string_view key) const {
  const std::ptrdiff_t at = position(key);
  return at < 0 ? nullptr : &items_[static_cast<size_t>(at)].second;
}

const Value* Dict::find(const Value& key) const {
  if (!hashable(key)) return nullptr;
  const std::ptrdiff_t at = position(key);
  return at < 0 ? nullptr : &items_[static_cast<size_t>(at)].second;
}

Result<void> DictBuilder::add(Value key, Value value) {
  if (!hashable(key)) return fail(Code::kInvalidArgument, "unhashable type: '{}'", type_name(key));
  Dict& dict = *dict_;
  const bool searched = !key.is(Kind::kText) || dict.index_.empty();
  CAIRN_TRY_VOID(budget_.step(1 + (searched ? static_cast<int64_t>(dict.items_.size()) / 8 : 0)));
  const int32_t depth = 1 + std::max(key.depth(), value.depth());
  if (depth > budget_.limits().depth_max)
    return fail(Code::kTooLarge, "a dict nests deeper than {} levels", budget_.limits().depth_max);
  dict.depth_ = std::max(dict.depth_, depth);
  if (const std::ptrdiff_t at = dict.position(key); at >= 0) {
    dict.items_[static_cast<size_t>(at)].second = std::move(value);
    return {};
  }
  CAIRN_TRY_VOID(dict.charge_.take(budget_, 4 * sizeof(Value)));
  dict.items_.emplace_back(std::move(key), std::move(value));
  if (dict.items_.size() < Dict::kIndexFrom) return {};
  const size_t first = dict.index_.empty() ? 0 : dict.items_.size() - 1;
  for (size_t i = first; i < dict.items_.size(); ++i)
    if (const Value& name = dict.items_[i].first; name.is(Kind::kText))
      dict.index_.emplace(name.text(), static_cast<uint32_t>(i));
  return {};
}

Result<void> DictBuilder::add(const Piece& key, Value value) {
  CAIRN_TRY(Value name, make_text(budget_, key));
  return add(std::move(name), std::move(value));
}

Result<void> DictBuilder::add_all(const Dict& dict) {
  for (const auto& [key, value] : dict.items()) CAIRN_TRY_VOID(add(key, value));
  return {};
}

Result<Value> make_text(Budget& budget, const Piece& piece, bool markup) {
  Origin origin;
  piece.append_origin(origin, 0);
  return make_text(budget, std::string(piece.bytes()), std::move(origin), markup);
}

Result<Value> make_text(Budget& budget, std::string bytes, Origin origin, bool markup) {
  const auto size = static_cast<int64_t>(bytes.size());
  CAIRN_TRY_VOID(budget.check_length(size));
  CAIRN_TRY_VOID(budget.work(size));
  auto text = std::make_shared<Text>();
  const size_t more = sizeof(Text) + origin.ranges().size() * sizeof(ByteRange);
  CAIRN_TRY_VOID(text->charge.take(budget, size + static_cast<int64_t>(more)));
  text->bytes = std::move(bytes);
  text->origin = std::move(origin);
  text->markup = markup;
  return Value(std::shared_ptr<const Text>(std::move(text)));
}

Result<Value> make_text(Buffer buffer, bool markup) {
  auto text = std::make_shared<Text>();
  Budget& budget = buffer.budget();
  Buffer::Built built = buffer.release();
  text->bytes = std::move(built.text);
  text->origin = std::move(built.origin);
  text->charge = std::move(built.charge);
  CAIRN_TRY_VOID(text->charge.take(budget, static_cast<int64_t>(sizeof(Text))));
  text->markup = markup;
  return Value(std::shared_ptr<const Text>(std::move(text)));
}

Result<Value> make_list(Budget& budget, std::vector<Value> items, ListKind kind) {
  CAIRN_TRY_VOID(budget.step(static_cast<int64_t>(items.size()) / 4));
  auto list = std::make_shared<List>();
  CAIRN_TRY_VOID(list->charge.take(budget, static_cast<int64_t>(sizeof(List) + items.size() * sizeof(Value))));
  for (const Value& item : items) list->depth = std::max(list->depth, 1 + item.depth());
  if (list->depth > budget.limits().depth_max)
    return fail(Code::kTooLarge, "a list nests deeper than {} levels", budget.limits().depth_max);
  list->items = std::move(items);
  list->kind = kind;
  return Value(std::shared_ptr<const List>(std::move(list)));
}

Result<Value> make_mapped(Budget& budget, const Value& text, std::string mapped) {
  Origin origin;
  if (text.piece().any_foreign()) {
    // Only if it is ASCII before and after is the mapping known to be byte by byte.
    const bool byte_by_byte = text.text().size() == mapped.size() && is_ascii(text.text()) && is_ascii(mapped);
    origin = byte_by_byte ? text.text_ref()->origin : Origin::foreign(mapped.size());
  }
  return make_text(budget, std::move(mapped), std::move(origin), text.is_markup());
}

Value literal_text(std::string bytes) {
  auto text = std::make_shared<Text>();
  text->bytes = std::move(bytes);
  return Value(std::shared_ptr<const Text>(std::move(text)));
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "NoneType";
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kText:
      return value.is_markup() ? "Markup" : "str";
    case Kind::kList:
      return value.is_tuple() ? "tuple" : "list";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return value.object_ref()->type_name();
  }
  return "object";
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
      return false;
    case Kind::kBool:
      return value.boolean();
    case Kind::kInt:
      return value.integral() != 0;
    case Kind::kFloat:
      return value.floating() != 0.0;
    case Kind::kText:
      return !value.text().empty();
    case Kind::kList:
      return !value.items().empty();
    case Kind::kDict:
      return !value.dict().items().empty();
    case Kind::kObject:
      return value.object_ref()->truthy();
  }
  return false;
}

std::unexpected<Error> undefined_error(const Value& value) {
  return std::unexpected(Error{Code::kInvalidArgument, value.undefined().message, {}});
}

}  // namespace cairn::jinja
