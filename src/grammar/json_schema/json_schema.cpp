#include "grammar/json_schema/json_schema.h"

#include <string>
#include <utility>
#include <vector>

#include "grammar/json_schema/normalizer.h"
#include "grammar/json_schema/writer.h"

namespace cairn::grammar {

namespace {

using Json = nlohmann::ordered_json;

bool has_unevaluated(const Json& document) {
  std::vector<const Json*> open{&document};
  while (!open.empty()) {
    const Json& value = *open.back();
    open.pop_back();
    if (value.is_object() && (value.contains("unevaluatedProperties") || value.contains("unevaluatedItems")))
      return true;
    if (!value.is_structured()) continue;
    for (const Json& child : value) open.push_back(&child);
  }
  return false;
}

Draft draft_of_document(const Json& document, const SchemaOptions& options) {
  if (document.is_object() && document.contains("$schema") && document["$schema"].is_string()) {
    if (const auto draft = draft_of(document["$schema"].get<std::string>())) return *draft;
  }
  return options.draft.value_or(Draft::k2020);
}

std::unexpected<SchemaError> failed(const Error& error, std::string_view keyword = "") {
  return std::unexpected(SchemaError{error.code, "", std::string(keyword), error.message});
}

// Whether the documents have unevaluatedProperties or unevaluatedItems.
SchemaResult<bool> fill(SchemaIndex& index, const Json& schema, const SchemaOptions& options) {
  if (!schema.is_object() && !schema.is_boolean()) {
    return std::unexpected(SchemaError{Code::kInvalidArgument, "", "", "a schema must be an object or a boolean"});
  }
  bool tracks = has_unevaluated(schema);
  if (const Result<void> added = index.add(schema, "", draft_of_document(schema, options)); !added.has_value()) {
    return failed(added.error());
  }
  for (const auto& [uri, document] : options.remotes) {
    tracks |= has_unevaluated(document);
    const std::string name = uri.substr(0, uri.find('#'));
    if (const Result<void> added = index.add(document, name, draft_of_document(document, options));
        !added.has_value()) {
      return failed(added.error());
    }
  }
  return tracks;
}

SchemaResult<GoalId> goal_of(Normalizer& normalizer, const Json& schema) {
  const GoalId goal = normalizer.goal_of(schema);
  const bool nothing = normalizer.empty(goal);
  if (normalizer.error().has_value()) return std::unexpected(*normalizer.error());
  if (normalizer.text().pool().full()) {  // what was found out is then not true
    return std::unexpected(
        SchemaError{Code::kTooLarge, "", "", "the schema needs " + normalizer.text().pool().excess()});
  }
  if (nothing) return std::unexpected(SchemaError{Code::kInvalidArgument, "", "", "no value fits the schema"});
  return goal;
}

// What is made of a schema before its rules are written.
struct PreparedSchema {
  SchemaIndex& index;
  bool tracks;
  Normalizer& normalizer;
  GrammarWriter& writer;
  GoalId goal;
};

// `write` makes a symbol of a PreparedSchema.
template <class Write>
SchemaResult<SymbolId> write_schema(GrammarBuilder& builder, const Json& schema, const SchemaOptions& options,
                                    Write write) {
  SchemaIndex index;
  CAIRN_TRY(const bool tracks, fill(index, schema, options));
  JsonText text(builder.regexes(), options.notation);
  NumberText numbers(text);
  Normalizer normalizer(index, text, numbers, options, tracks);
  GrammarWriter writer(builder, normalizer, options.whitespace, options.order);
  CAIRN_TRY(const GoalId goal, goal_of(normalizer, schema));
  CAIRN_TRY(const SymbolId start, write(PreparedSchema{index, tracks, normalizer, writer, goal}));
  if (normalizer.error().has_value()) return std::unexpected(*normalizer.error());
  return start;
}

}  // namespace

Error SchemaError::error() const { return {code, message, at.empty() ? "the schema" : at}; }

SchemaResult<SymbolId> add_json_schema(GrammarBuilder& builder, const Json& schema, const SchemaOptions& options) {
  return write_schema(builder, schema, options, [](const PreparedSchema& prepared) -> SchemaResult<SymbolId> {
    return prepared.writer.write(prepared.goal);
  });
}

Result<SymbolId> SchemaAdder::operator()(GrammarBuilder& builder, const Json& schema) const {
  const auto made = add_json_schema(builder, schema, {.reading = reading});
  if (!made) return std::unexpected(made.error().error());
  return *made;
}

SchemaResult<SymbolId> add_parameters(GrammarBuilder& builder, const Json& schema, const ParameterMarkup& markup,
                                      const SchemaOptions& options) {
  return write_schema(builder, schema, options, [&](const PreparedSchema& prepared) -> SchemaResult<SymbolId> {
    // The second normal form is for strings that stand as they are.
    JsonText text(
        builder.regexes(),
        {.escapes = false, .open_quote = "", .close_quote = "", .bare_keys = true, .absent = options.notation.absent});
    NumberText numbers(text);
    Normalizer plain(prepared.index, text, numbers, options, prepared.tracks);
    CAIRN_TRY(const GoalId goal, goal_of(plain, schema));
    const SymbolId start = prepared.writer.write_parameters(prepared.goal, markup, plain, goal);
    if (plain.error().has_value()) return std::unexpected(*plain.error());
    return start;
  });
}

bool leaves_keys_open(const Json& schema) {
  std::vector<const Json*> open{&schema};
  while (!open.empty()) {
    const Json& value = *open.back();
    open.pop_back();
    if (value.is_object() && value.contains("properties") && value["properties"].is_object() &&
        !value["properties"].empty() && !value.contains("additionalProperties") &&
        !value.contains("unevaluatedProperties"))
      return true;
    if (!value.is_structured()) continue;
    for (const Json& child : value) open.push_back(&child);
  }
  return false;
}

SchemaResult<std::shared_ptr<const Grammar>> compile_json_schema(const Json& schema, const SchemaOptions& options) {
  GrammarBuilder builder;
  CAIRN_TRY(const SymbolId start, add_json_schema(builder, schema, options));
  Result<std::shared_ptr<const Grammar>> grammar = builder.finish(start);
  if (!grammar.has_value()) {
    if (grammar.error().code == Code::kInvalidArgument) {
      return std::unexpected(SchemaError{Code::kInvalidArgument, "", "", "no value fits the schema"});
    }
    return failed(grammar.error());
  }
  return *grammar;
}

SymbolId add_json_value(GrammarBuilder& builder, Whitespace whitespace) {
  return add_json_schema(builder, Json(true), {.whitespace = whitespace}).value();
}

SymbolId add_json_object(GrammarBuilder& builder, Whitespace whitespace) {
  return add_json_schema(builder, Json{{"type", "object"}}, {.whitespace = whitespace}).value();
}

}  // namespace cairn::grammar
