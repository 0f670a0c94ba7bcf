/// Values of a running template: those of Python, as far as a sandboxed template can distinguish them.
///
/// Strings, lists and dicts are immutable and shared. Those made during a rendering are charged to its Budget, which
/// outlives them; a template's own literals are not charged and may be shared by threads. No list or dict nests deeper
/// than JinjaLimits::depth_max, so that walking one by recursion is safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "jinja/value/budget.h"

namespace cairn::jinja {

/// 128 bits hold every JSON integer; beyond them arithmetic is an error.
using Int = __int128;

struct Text;
struct List;
class Dict;
struct Object;
struct Undefined;

enum class Kind : uint8_t { kNone, kUndefined, kBool, kInt, kFloat, kText, kList, kDict, kObject };

class Value {
 public:
  Value() = default;  ///< None
  explicit Value(bool value) : data_(value) {}
  explicit Value(Int value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(std::shared_ptr<const Text> text) : data_(std::move(text)) {}
  explicit Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  explicit Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}
  /// `message` is the error that most uses of the value give.
  static Value undefined(std::string message);
  static Value integer(int64_t value) { return Value(Int{value}); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind_wanted) const { return kind() == kind_wanted; }
  /// Whether it is a number in Python's sense: bool, int or float.
  bool is_number() const { return is(Kind::kBool) || is(Kind::kInt) || is(Kind::kFloat); }
  /// Whether it is a bool or int.
  bool is_integral() const { return is(Kind::kBool) || is(Kind::kInt); }

  // Accessors, each only for its kind.
  bool boolean() const { return *std::get_if<bool>(&data_); }
  Int integral() const { return is(Kind::kBool) ? Int{boolean()} : *std::get_if<Int>(&data_); }
  double floating() const { return is(Kind::kFloat) ? *std::get_if<double>(&data_) : static_cast<double>(integral()); }
  const std::string& text() const;
  Piece piece() const;  ///< text() with its origin
  bool is_markup() const;
  const std::vector<Value>& items() const;
  bool is_tuple() const;
  const Dict& dict() const { return **std::get_if<std::shared_ptr<const Dict>>(&data_); }
  const Undefined& undefined() const { return **std::get_if<std::shared_ptr<const Undefined>>(&data_); }
  const std::shared_ptr<const Text>& text_ref() const { return *std::get_if<std::shared_ptr<const Text>>(&data_); }
  const std::shared_ptr<const List>& list_ref() const { return *std::get_if<std::shared_ptr<const List>>(&data_); }
  const std::shared_ptr<Object>& object_ref() const { return *std::get_if<std::shared_ptr<Object>>(&data_); }

  /// The object, if it is one of class T.
  template <class T>
  T* object() const;

  /// Levels of nested lists, dicts and objects.
  int32_t depth() const;
  /// Whether both share the same memory.
  bool is_same(const Value& other) const;

 private:
  std::variant<std::monostate, std::shared_ptr<const Undefined>, bool, Int, double, std::shared_ptr<const Text>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      data_;
};

struct Undefined {
  std::string message;
};

struct Text {
  std::string bytes;    ///< UTF-8, though not checked: ill-formed bytes count as one character each
  Origin origin;        ///< where `bytes` come from
  bool markup = false;  ///< from |safe or |escape: `+` escapes text that is joined to it
  Charge charge;
};

/// kLiteral: a list that the template wrote as [...], to which it can append; kGroup: groupby's tuple (grouper, list).
enum class ListKind : uint8_t { kList, kLiteral, kTuple, kGroup };

struct List {
  std::vector<Value> items;
  ListKind kind = ListKind::kList;
  int32_t depth = 1;
  Charge charge;
};

/// A dict in insertion order.
class Dict {
 public:
  const std::vector<std::pair<Value, Value>>& items() const { return items_; }
  const Value* find(std::string_view key) const;
  /// Finds as in Python's dict: 1, 1.0 and True are one key. nullptr for values that cannot be keys.
  const Value* find(const Value& key) const;
  int32_t depth() const { return depth_; }

 private:
  friend class DictBuilder;
  static constexpr size_t kIndexFrom = 12;  // shorter dicts are faster to search than to index

  std::ptrdiff_t position(const Value& key) const;
  std::ptrdiff_t position(std::string_view key) const;

  std::vector<std::pair<Value, Value>> items_;
  std::unordered_map<std::string_view, uint32_t, SecretHash> index_;  // string keys, as views of the keys' own bytes
  int32_t depth_ = 1;
  Charge charge_;
};

class DictBuilder {
 public:
  explicit DictBuilder(Budget& budget) : budget_(budget), dict_(std::make_shared<Dict>()) {}
  /// Adds a key; an existing key keeps its place and gets the new value. Errors: unhashable key, limits.
  Result<void> add(Value key, Value value);
  Result<void> add(const Piece& key, Value value);
  Result<void> add_all(const Dict& dict);
  int64_t size() const { return static_cast<int64_t>(dict_->items().size()); }
  Value finish() { return Value(std::shared_ptr<const Dict>(std::move(dict_))); }

 private:
  Budget& budget_;
  std::shared_ptr<Dict> dict_;
};

Result<Value> make_text(Budget& budget, const Piece& piece, bool markup = false);
Result<Value> make_text(Budget& budget, std::string bytes, Origin origin, bool markup = false);
Result<Value> make_text(Buffer buffer, bool markup = false);
Result<Value> make_list(Budget& budget, std::vector<Value> items, ListKind kind = ListKind::kList);
/// `mapped` is `text` with its letters changed, of the same markup. If its bytes do not correspond to those of `text`,
/// it is foreign as a whole if any of `text` is.
Result<Value> make_mapped(Budget& budget, const Value& text, std::string mapped);
/// A literal of the template, which is not charged to any rendering.
Value literal_text(std::string bytes);

/// "int", "str", "dict", "NoneType", ...
std::string_view type_name(const Value& value);
bool truthy(const Value& value);
/// The error of using an undefined value.
std::unexpected<Error> undefined_error(const Value& value);

template <class T>
T* Value::object() const {
  const auto* held = std::get_if<std::shared_ptr<Object>>(&data_);
  return held == nullptr ? nullptr : dynamic_cast<T*>(held->get());
}

/// A value with identity and behaviour: see jinja/value/object.h.
struct Object {
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual bool truthy() const { return true; }
  /// Drops references that could be part of a cycle.
  virtual void forget() {}
  int32_t depth = 1;
  Charge charge;
};

}  // namespace cairn::jinja
