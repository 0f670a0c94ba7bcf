/// The arguments of a call, and their binding to a built-in function's parameters.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "jinja/value/value.h"

namespace cairn::jinja {

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  bool empty() const { return positional.empty() && named.empty(); }
};

/// The name of a named argument as a text. It may be the key of a dict that was given with `**`, so it counts as
/// foreign.
inline Piece name_piece(std::string_view name) { return Piece::foreign(name); }

/// Arguments in the order of the parameters. Must not outlive the Args from which it was bound.
class Bound {
 public:
  static constexpr size_t kParametersMax = 8;

  bool has(size_t i) const { return values_[i] != nullptr; }
  /// Whether the argument was given and is not None.
  bool given(size_t i) const { return has(i) && !values_[i]->is(Kind::kNone); }
  const Value& operator[](size_t i) const { return *values_[i]; }

  /// The argument's truth value, or `missing`.
  bool boolean(size_t i, bool missing) const { return has(i) ? truthy(*values_[i]) : missing; }
  /// An integer within 64 bits, or an Error that names the parameter.
  Result<int64_t> integer(size_t i, int64_t missing) const;
  /// A string, or an Error that names the parameter.
  Result<std::string_view> text(size_t i, std::string_view missing) const;
  Result<Piece> piece(size_t i, const Piece& missing) const;

 private:
  friend Result<Bound> bind(std::string_view, const Args&, std::initializer_list<std::string_view>, size_t);
  std::array<const Value*, kParametersMax> values_{};
  std::array<std::string_view, kParametersMax> names_{};
  std::string_view function_;
};

/// Errors as in Python: too many arguments, an unknown name, one given twice, one of the first `required` missing.
Result<Bound> bind(std::string_view function, const Args& args, std::initializer_list<std::string_view> parameters,
                   size_t required = 0);

}  // namespace cairn::jinja
