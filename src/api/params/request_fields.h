/// Reading a JSON request body field by field: types, ranges, and nothing ignored in silence.
///
/// A field is one of four: honoured (any getter); neutral only (`only...`): a value that asks for nothing is
/// taken, another is refused; without effect (`accept`, and what the endpoint does not know): taken, and told in the
/// log and in the answer's "warnings" (request_context.h); refused (`refuse`), with what to do instead.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/params/request_context.h"
#include "base/error.h"
#include "base/function_ref.h"

namespace cairn::api {

/// A JSON object. Errors say where the text stops being JSON, or which byte is not UTF-8, or that it is not an object
/// (kInvalidArgument), or which limit of base/text/json.h it is over (kTooLarge).
Result<nlohmann::ordered_json> parse_object(std::string_view body);

/// Reads the fields of one object. Each getter remembers the first Error, whose `at` is the field's path, and goes on
/// with the default, so that callers read all fields in a row and ask once at the end. A null value counts as absent.
class RequestFields {
 public:
  /// `context`: of the request. `object` is a JSON object; both outlive this. `path` is put before names:
  /// "messages[2].".
  explicit RequestFields(RequestContext& context, const nlohmann::ordered_json& object, std::string path = "");

  RequestContext& context() const { return context_; }

  /// The value, or nullptr if absent.
  const nlohmann::ordered_json* get(std::string_view name);
  /// The object, or nullptr if absent or another kind of value, which is an Error.
  const nlohmann::ordered_json* object(std::string_view name);
  bool boolean(std::string_view name, bool fallback);
  int64_t integer(std::string_view name, int64_t fallback, int64_t low, int64_t high);
  std::optional<int64_t> optional_integer(std::string_view name, int64_t low, int64_t high);
  /// A field with two names: an Error if both are there and differ.
  int64_t integer_alias(std::string_view name, std::string_view alias, int64_t fallback, int64_t low, int64_t high);
  double number(std::string_view name, double fallback, double low, double high);
  std::string string(std::string_view name, std::string_view fallback);

  /// Fields that are taken whatever they say and have no effect here, which is told; but for those that a getter read.
  void accept(std::initializer_list<std::string_view> names);
  /// The same for one field, with what happens instead: "models stay loaded".
  void accept(std::string_view name, std::string_view why);
  /// Takes the field's value only if it asks for nothing, as `neutral` says; refuses another with what to do instead.
  void only_if(std::string_view name, FunctionRef<bool(const nlohmann::ordered_json& value)> neutral,
               std::string_view why);
  /// `only_if` for one neutral value.
  void only(std::string_view name, const nlohmann::ordered_json& neutral, std::string_view why);
  /// `only_if` for false and for empty strings, arrays and objects.
  void only_empty(std::string_view name, std::string_view why);
  /// Tells that a value that was read has no effect: "image_url is left out".
  void tell(std::string_view name, std::string_view what) const;
  /// Refuses the field, if present, with what to do instead.
  void refuse(std::string_view name, std::string_view why);
  /// An Error (kInvalidArgument): the field's path and what is wrong with it, "must be a string".
  void reject(std::string_view name, std::string what);
  /// Takes the error of fields within, if that is the first one.
  void adopt(Result<void> inner) {
    if (!inner && !error_) error_ = std::move(inner).error();
  }
  bool failed() const { return error_.has_value(); }
  /// Whether the field has been asked for before, be it there or not.
  bool was_read(std::string_view name) const { return known_.contains(name); }
  std::string path_of(std::string_view name) const { return path_ + std::string(name); }

  /// The first Error. Fields that nobody asked for are told, or an Error if the context has strict fields. Of a whole
  /// body (an empty `path`), reads `warnings`, too.
  Result<void> finish();

 private:
  void note(std::string_view name, FieldUse use) const;

  RequestContext& context_;
  const nlohmann::ordered_json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::optional<Error> error_;
};

/// Whether the value can be a token's id: an integer from 0 to the largest int32_t.
bool is_token_id(const nlohmann::ordered_json& value);
/// "a string", "an array", ... for messages.
std::string_view json_kind(const nlohmann::ordered_json& value);
/// For messages: a string or a number as JSON text, of which at most kQuotedBytesMax bytes, or the kind of the value.
std::string quoted_value(const nlohmann::ordered_json& value);
/// What is wrong with the field at `path`: kInvalidArgument, with a message that begins with the path.
std::unexpected<Error> invalid_field(const std::string& path, std::string_view what);

}  // namespace cairn::api
