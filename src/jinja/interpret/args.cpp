#include "jinja/interpret/args.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace cairn::jinja {

Result<Bound> bind(std::string_view function, const Args& args, std::initializer_list<std::string_view> parameters,
                   size_t required) {
  CAIRN_CHECK(parameters.size() <= Bound::kParametersMax);
  Bound bound;
  bound.function_ = function;
  std::copy(parameters.begin(), parameters.end(), bound.names_.begin());
  if (args.positional.size() > parameters.size())
    return fail(Code::kInvalidArgument, "{}() takes at most {} argument(s) but {} were given", function,
                parameters.size(), args.positional.size());
  for (size_t i = 0; i < args.positional.size(); ++i) bound.values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end())
      return fail(Code::kInvalidArgument, "{}() got an unexpected keyword argument '{}'", function, name);
    const Value*& slot = bound.values_[static_cast<size_t>(found - parameters.begin())];
    if (slot != nullptr) return fail(Code::kInvalidArgument, "{}() got two values for argument '{}'", function, name);
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i)
    if (!bound.has(i)) return fail(Code::kInvalidArgument, "{}() misses its argument '{}'", function, bound.names_[i]);
  return bound;
}

Result<int64_t> Bound::integer(size_t i, int64_t missing) const {
  if (!has(i)) return missing;
  const Value& value = *values_[i];
  if (value.is(Kind::kUndefined)) return undefined_error(value);
  if (!value.is_integral())
    return fail(Code::kInvalidArgument, "{}(): '{}' object cannot be interpreted as an integer (argument '{}')",
                function_, type_name(value), names_[i]);
  const Int number = value.integral();
  if (number > std::numeric_limits<int64_t>::max() || number < std::numeric_limits<int64_t>::min())
    return fail(Code::kInvalidArgument, "{}(): argument '{}' is too large", function_, names_[i]);
  return static_cast<int64_t>(number);
}

Result<std::string_view> Bound::text(size_t i, std::string_view missing) const {
  if (!has(i)) return missing;
  const Value& value = *values_[i];
  if (value.is(Kind::kUndefined)) return undefined_error(value);
  if (!value.is(Kind::kText))
    return fail(Code::kInvalidArgument, "{}(): argument '{}' must be str, not {}", function_, names_[i],
                type_name(value));
  return std::string_view(value.text());
}

Result<Piece> Bound::piece(size_t i, const Piece& missing) const {
  CAIRN_TRY_VOID(text(i, {}));
  return has(i) ? values_[i]->piece() : missing;
}

}  // namespace cairn::jinja
