#include "form_flags.h"

#include <utility>

#include "base/text/json.h"
#include "base/text/text_file.h"
#include "help/help_format.h"
#include "help/value_checks.h"

namespace cairn {
namespace {

using grammar::GrammarSource;
using nlohmann::ordered_json;
using Kind = GrammarSource::Kind;

}  // namespace

CLI::Option* add_schema_reading_flag(CLI::App& command, grammar::SchemaReading& reading) {
  using grammar::SchemaReading;
  return command
      .add_option_function<std::string>(
          "--schema-additional",
          [&reading](const std::string& name) {
            reading = name == "standard" ? SchemaReading::kStandard : SchemaReading::kDeclared;
          },
          "Keys that an object may have if its schema lists properties but no additionalProperties: only the declared "
          "ones, or any others too, as the standard says")
      ->check(one_of({"declared", "standard"}))
      ->default_str(reading == SchemaReading::kStandard ? "standard" : "declared");
}

void FormFlags::add_to(CLI::App& command) {
  const std::string group(kFormHeading);
  auto* schema = command.add_option("--json-schema", schema_file, "File with a JSON Schema that answers must follow");
  auto* grammar =
      command.add_option("--grammar", grammar_file, "File with a GBNF or Lark grammar that answers must follow");
  auto* expression = command.add_option("--regex", regex, "Regular expression that the whole answer must match");
  schema->excludes(grammar)->excludes(expression)->type_name("FILE")->group(group);
  grammar->excludes(expression)->type_name("FILE")->group(group);
  expression->type_name("REGEX")->group(group);
  add_schema_reading_flag(command, reading)->group(group);
}

Result<chat::AnswerForm> FormFlags::read() const {
  if (!schema_file.empty()) {
    CAIRN_TRY(const std::string text, read_text_file(schema_file, "--json-schema"));
    auto schema = read_json(text);
    if (!schema)
      return fail(Code::kInvalidArgument, "--json-schema: {} is not JSON: it {}", schema_file, schema.error().message);
    return GrammarSource{.kind = Kind::kJsonSchema, .field = "--json-schema", .schema = *std::move(schema)};
  }
  if (!grammar_file.empty()) {
    CAIRN_TRY(std::string text, read_text_file(grammar_file, "--grammar"));
    const Kind kind = text.contains("::=") ? Kind::kGbnf : Kind::kLark;
    return GrammarSource{.kind = kind, .field = "--grammar", .text = std::move(text)};
  }
  if (!regex.empty()) return GrammarSource{.kind = Kind::kRegex, .field = "--regex", .text = regex};
  return std::nullopt;
}

Result<void> check_form(const chat::AnswerForm& form, grammar::GrammarCache& grammars) {
  if (!form) return {};
  if (const auto made = grammars.get(*form); !made)
    return fail(made.error().code, "{}: {}", form->field, made.error().message);
  return {};
}

void add_form(const GrammarSource& form, ordered_json& request) {
  switch (form.kind) {
    case Kind::kJsonSchema:
      request["response_format"] = {{"type", "json_schema"},
                                    {"json_schema", {{"name", "answer"}, {"strict", true}, {"schema", form.schema}}}};
      return;
    case Kind::kRegex:
      request["structured_outputs"] = {{"regex", form.text}};
      return;
    default:
      request["structured_outputs"] = {{"grammar", form.text}};
  }
}

}  // namespace cairn
