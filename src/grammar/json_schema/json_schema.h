/// JSON Schema (drafts 4, 6, 7, 2019-09 and 2020-12) as a grammar of JSON texts.
///
/// The grammar accepts only texts whose value the schema allows. What cannot be held to is an error. Of the texts with
/// an allowed value it leaves out these: keys in another order than the options say, keys and listed values with
/// escapes that JSON does not need, numbers with an exponent where they are constrained, numbers with more digits than
/// number.h says, integers with a point, and what the options say about white space.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/json_schema/json_text.h"
#include "grammar/json_schema/resolve.h"

namespace cairn::grammar {

/// In which order an object's keys are written.
enum class KeyOrder {
  kSchema,  ///< Declared keys in the schema's order, then all others in any order.
  kAny,
};

struct SchemaOptions {
  Whitespace whitespace = Whitespace::kPretty;
  KeyOrder order = KeyOrder::kSchema;
  bool assert_formats = true;    ///< else `format` is an annotation
  std::optional<Draft> draft{};  ///< of documents that do not say; 2020-12 if missing
  /// Documents that references may mean, by absolute URI. Nothing is ever fetched.
  std::map<std::string, nlohmann::ordered_json> remotes{};
};

struct SchemaError {
  Code code = Code::kInternal;
  std::string at;       ///< JSON Pointer
  std::string keyword;  ///< may be empty
  std::string message;

  /// "/properties/a/not: the message"
  Error error() const;
};

template <class T>
using SchemaResult = std::expected<T, SchemaError>;

/// Adds rules for the values that a schema allows; returns their symbol. Errors: kInvalidArgument (no schema; no value
/// fits), kUnsupported, kTooLarge.
SchemaResult<SymbolId> add_json_schema(GrammarBuilder& builder, const nlohmann::ordered_json& schema,
                                       const SchemaOptions& options);

/// A grammar of the values alone.
SchemaResult<std::shared_ptr<const Grammar>> compile_json_schema(const nlohmann::ordered_json& schema,
                                                                 const SchemaOptions& options);

/// Any JSON value, and any JSON object.
SymbolId add_json_value(GrammarBuilder& builder, Whitespace whitespace);
SymbolId add_json_object(GrammarBuilder& builder, Whitespace whitespace);

}  // namespace cairn::grammar
