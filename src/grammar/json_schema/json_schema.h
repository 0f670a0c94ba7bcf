/// JSON Schema (drafts 4, 6, 7, 2019-09 and 2020-12) as a grammar of JSON texts.
///
/// The grammar accepts only texts whose value the schema allows. What cannot be held to is an error. Of the texts with
/// an allowed value it leaves out these: keys in another order than the options say, keys and listed values with
/// escapes that JSON does not need, numbers with an exponent where they are constrained, numbers with more digits than
/// number.h says, integers with a point, in lists of unique items all spellings but one of each value, and what the
/// options say about white space.
#pragma once

#include <cstdint>
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

/// What an object may have besides its declared keys where `properties` stand and nothing is said of others.
enum class SchemaReading : uint8_t {
  kDeclared,  ///< Nothing, as people mean it, unless no object would fit then.
  kStandard,  ///< Anything, as JSON Schema says.
};

struct SchemaOptions {
  SchemaReading reading = SchemaReading::kDeclared;
  Whitespace whitespace = Whitespace::kPretty;
  KeyOrder order = KeyOrder::kSchema;
  Notation notation{};
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

/// Adds the same rules, with errors as others have them: for schemas within grammars of other languages.
struct SchemaAdder {
  SchemaReading reading = SchemaReading::kDeclared;
  Result<SymbolId> operator()(GrammarBuilder& builder, const nlohmann::ordered_json& schema) const;
};

/// How a member's value is told from others where members have markup around them.
enum class ParameterKind : uint8_t {
  kText,        ///< a string as it stands
  kTextOrNull,  ///< the same, and the word null is no string
  kValue,       ///< written in the notation, strings with their quotes
  kEither,      ///< written in the notation, or a string that stands as it is and cannot be taken for anything else
  kAnyText,     ///< whatever stands there
  kMarked,      ///< the markup tells strings that stand as they are from values
};

/// An object whose members have markup around them in place of JSON's: open KEY key_close VALUE close between ...
struct ParameterMarkup {
  RegexId open = kEmptyText;
  RegexId text_key_close = kNoMatch;  ///< before and after a string that stands as it is
  RegexId text_close = kNoMatch;
  RegexId wrap_open = kEmptyText;  ///< besides, these two may be around it
  RegexId wrap_close = kEmptyText;
  RegexId key_close = kEmptyText;  ///< before and after another value
  RegexId close = kEmptyText;
  RegexId between = kEmptyText;
  RegexId more_keys = kNoMatch;                  ///< besides words, of members that the schema does not declare
  std::map<std::string, ParameterKind> kinds{};  ///< by name
  ParameterKind other_kind = ParameterKind::kValue;
};

/// Adds rules for the members of the objects that a schema allows. Errors: as add_json_schema().
SchemaResult<SymbolId> add_parameters(GrammarBuilder& builder, const nlohmann::ordered_json& schema,
                                      const ParameterMarkup& markup, const SchemaOptions& options);

/// Whether a schema within this one has `properties` and says nothing of other keys.
bool leaves_keys_open(const nlohmann::ordered_json& schema);

/// A grammar of the values alone.
SchemaResult<std::shared_ptr<const Grammar>> compile_json_schema(const nlohmann::ordered_json& schema,
                                                                 const SchemaOptions& options);

/// Any JSON value, and any JSON object.
SymbolId add_json_value(GrammarBuilder& builder, Whitespace whitespace);
SymbolId add_json_object(GrammarBuilder& builder, Whitespace whitespace);

}  // namespace cairn::grammar
