#include "api/params/answer_form.h"

#include <string>
#include <utility>

#include "base/text/json.h"
#include "grammar/json_schema/keyword_table.h"

namespace cairn::api {
namespace {

using grammar::GrammarSource;
using nlohmann::ordered_json;
using Kind = GrammarSource::Kind;

void put(RequestFields& fields, std::string_view name, GrammarSource source, chat::AnswerForm& form) {
  if (form && form->kind == source.kind && form->text == source.text && form->schema == source.schema &&
      form->choices == source.choices)
    return;  // the same under another name
  if (form) return fields.reject(name, "asks for a second form of the answer, beside " + form->field);
  form = std::move(source);
}

// What is wrong with an object that stands where a schema should, or nothing: it has members that are no keywords, and
// none that would hold the answer to more than a type.
std::string schema_fault(const ordered_json& object) {
  bool strange = false;
  if (!object.is_object()) return {};
  for (const auto& [name, value] : object.items()) {
    if (name != "type" && grammar::binds_values(name)) return {};
    strange = strange || !grammar::is_keyword(name);
  }
  if (!strange) return {};
  for (const std::string_view holder : {"schema", "json_schema", "parameters", "input_schema", "inputSchema"})
    if (object.contains(holder))
      return fmt::format("must be a JSON Schema; the one in its member {} belongs here", holder);
  if (object.contains("type")) return {};
  return "must be a JSON Schema, and has no keyword of one, such as type or properties";
}

void put_schema(RequestFields& fields, std::string_view name, const ordered_json& schema, chat::AnswerForm& form) {
  if (!schema.is_object() && !schema.is_boolean()) return fields.reject(name, "must be a JSON Schema, an object");
  if (std::string fault = schema_fault(schema); !fault.empty()) return fields.reject(name, std::move(fault));
  put(fields, name, {.kind = Kind::kJsonSchema, .field = fields.path_of(name), .schema = schema}, form);
}

enum class Need : uint8_t { kMayBeMissing, kMustBeThere };

// Reads a JSON schema, which may be an object or a string that contains one.
void read_schema(RequestFields& fields, std::string_view name, chat::AnswerForm& form,
                 Need need = Need::kMayBeMissing) {
  const ordered_json* value = fields.get(name);
  const bool missing = value == nullptr || value->is_null() || *value == "";
  if (missing && need == Need::kMustBeThere) return fields.reject(name, "is missing: the JSON Schema goes there");
  if (missing) return;
  if (!value->is_string()) return put_schema(fields, name, *value, form);
  const auto& text = value->get_ref<const std::string&>();
  const auto parsed = read_json(text);
  if (!parsed) return fields.reject(name, "must be a JSON Schema; its text " + parsed.error().message);
  put_schema(fields, name, *parsed, form);
}

void read_text(RequestFields& fields, std::string_view name, Kind kind, chat::AnswerForm& form) {
  const ordered_json* value = fields.get(name);
  if (value == nullptr || value->is_null()) return;
  std::string text = fields.string(name, "");
  if (!text.empty()) put(fields, name, {.kind = kind, .field = fields.path_of(name), .text = std::move(text)}, form);
}

// vLLM takes GBNF and Lark in one field. Only the first has "::=" in each rule.
void read_either_grammar(RequestFields& fields, std::string_view name, chat::AnswerForm& form) {
  const ordered_json* value = fields.get(name);
  const bool gbnf = value != nullptr && value->is_string() && value->get_ref<const std::string&>().contains("::=");
  read_text(fields, name, gbnf ? Kind::kGbnf : Kind::kLark, form);
}

void read_choices(RequestFields& fields, std::string_view name, chat::AnswerForm& form) {
  const ordered_json* value = fields.get(name);
  if (value == nullptr || value->is_null()) return;
  if (!value->is_array()) return fields.reject(name, "must be an array of strings");
  if (value->empty()) return;
  GrammarSource source{.kind = Kind::kChoice, .field = fields.path_of(name)};
  for (const ordered_json& choice : *value) {
    if (!choice.is_string()) return fields.reject(name, "must be an array of strings");
    source.choices.push_back(choice.get<std::string>());
  }
  put(fields, name, std::move(source), form);
}

// Whether a value in another protocol's field asks for nothing but text.
constexpr auto kAsksForText = [](const ordered_json& given) {
  const bool inside = given.is_object() && given.size() == 1 && given.contains("format");
  const ordered_json& value = inside ? given["format"] : given;
  if (value.is_string()) return value == "" || value == "text";
  if (value.is_object() && value.contains("type")) return value["type"] == "text";
  return value == false || (value.is_structured() && value.empty());
};

void refuse_unread(RequestFields& fields, std::initializer_list<std::string_view> names, std::string_view why) {
  for (const std::string_view name : names)
    if (!fields.was_read(name)) fields.only_if(name, kAsksForText, why);
}

void read_structured_outputs(RequestFields& fields, chat::AnswerForm& form) {
  const ordered_json* value = fields.object("structured_outputs");
  if (value == nullptr) return;
  RequestFields inner(fields.context(), *value, fields.path_of("structured_outputs."));
  read_schema(inner, "json", form);
  read_text(inner, "regex", Kind::kRegex, form);
  read_choices(inner, "choice", form);
  read_either_grammar(inner, "grammar", form);
  if (inner.boolean("json_object", false))
    put(inner, "json_object", {.kind = Kind::kJsonObject, .field = inner.path_of("json_object")}, form);
  inner.only_empty("structural_tag", "use json, regex, choice or grammar");
  inner.only_empty("whitespace_pattern", "white space between JSON's parts is one space or an indented line");
  inner.accept({"disable_any_whitespace", "disable_additional_properties", "disable_fallback", "_backend"});
  refuse_misplaced_form(inner, *value, "json, regex, choice or grammar");
  fields.adopt(inner.finish());
}

// llama.cpp's: {"type": 0 (a token's text) or 1 (a word), "value": the text}.
void read_triggers(RequestFields& fields, chat::AnswerForm& form) {
  constexpr std::string_view kName = "grammar_triggers";
  const bool lazy = fields.boolean("grammar_lazy", false);
  const ordered_json* triggers = fields.get(kName);
  if (!lazy && triggers != nullptr && !triggers->empty()) return fields.reject(kName, "needs grammar_lazy: true");
  if (!lazy) return;
  if (!form || form->kind != Kind::kGbnf) return fields.reject("grammar_lazy", "needs a grammar");
  if (triggers == nullptr || !triggers->is_array() || triggers->empty() || triggers->size() > kGrammarTriggersMax)
    return fields.reject(kName, fmt::format("must be an array of 1 to {} triggers", kGrammarTriggersMax));
  for (const ordered_json& trigger : *triggers) {
    const auto type = trigger.is_object() ? trigger.find("type") : trigger.end();
    if (!trigger.is_object() || type == trigger.end() || (*type != 0 && *type != 1))
      return fields.reject(kName, "must have the type 0, a token, or 1, a word; patterns are not read");
    std::string text = trigger.value("value", ordered_json()).is_string() ? trigger["value"].get<std::string>() : "";
    if (text.empty() || text.size() > kGrammarTriggerBytesMax)
      return fields.reject(kName, fmt::format("must have texts of 1 to {} bytes as values", kGrammarTriggerBytesMax));
    form->triggers.push_back(std::move(text));
  }
}

}  // namespace

void read_answer_form(RequestFields& fields, chat::AnswerForm& form) {
  read_response_format(fields, "response_format", form);
  if (fields.boolean("json_mode", false))
    put(fields, "json_mode", {.kind = Kind::kJsonObject, .field = fields.path_of("json_mode")}, form);
  read_text(fields, "grammar", Kind::kGbnf, form);
  read_either_grammar(fields, "grammar_string", form);  // text-generation-webui's and TabbyAPI's
  read_schema(fields, "json_schema", form);
  read_structured_outputs(fields, form);
  read_schema(fields, "guided_json", form);
  read_text(fields, "guided_regex", Kind::kRegex, form);
  read_choices(fields, "guided_choice", form);
  read_either_grammar(fields, "guided_grammar", form);
  read_text(fields, "regex", Kind::kRegex, form);
  read_text(fields, "regex_pattern", Kind::kRegex, form);
  read_either_grammar(fields, "ebnf", form);
  read_triggers(fields, form);
  refuse_unread(fields,
                {"text", "format", "output_config", "output_format", "schema", "response_schema", "output_schema"},
                "use response_format, json_schema or grammar");
}

void refuse_answer_form(RequestFields& fields, std::string_view why) {
  if (!fields.was_read("json_schema")) fields.refuse("json_schema", why);  // an empty one, too, asks for JSON
  refuse_unread(fields,
                {"response_format",
                 "text",
                 "format",
                 "output_config",
                 "output_format",
                 "schema",
                 "response_schema",
                 "output_schema",
                 "json_mode",
                 "grammar",
                 "grammar_string",
                 "structured_outputs",
                 "guided_json",
                 "guided_regex",
                 "guided_choice",
                 "guided_grammar",
                 "regex",
                 "regex_pattern",
                 "ebnf",
                 "grammar_lazy",
                 "grammar_triggers"},
                why);
}

void refuse_misplaced_form(RequestFields& fields, const ordered_json& object, std::string_view place) {
  for (const auto& [name, value] : object.items()) {
    if (fields.was_read(name)) continue;
    const bool says_something = (value.is_string() && value != "") || (value.is_structured() && !value.empty());
    const bool annotates = grammar::is_keyword(name) && !grammar::binds_values(name);
    if (grammar::binds_values(name) || (says_something && !annotates))
      fields.reject(name, fmt::format("has no place here: the form of the answer goes into {}", place));
  }
}

void read_response_format(RequestFields& fields, std::string_view name, chat::AnswerForm& form) {
  const ordered_json* value = fields.object(name);
  if (value == nullptr) return;
  RequestFields format(fields.context(), *value, fields.path_of(name) + ".");
  const std::string type = format.string("type", "");
  std::string schema_path = format.path_of("schema");
  if (type == "json_object") {
    format.refuse("json_schema", "belongs to the type json_schema");
    const ordered_json* schema = format.get("schema");  // llama.cpp's form
    if (schema == nullptr || schema->is_null() || (schema->is_object() && schema->empty()))
      put(format, "type", {.kind = Kind::kJsonObject, .field = fields.path_of(name)}, form);
    else
      read_schema(format, "schema", form, Need::kMustBeThere);
  } else if (type == "json_schema") {
    const ordered_json* inner = format.object("json_schema");
    RequestFields place(fields.context(), inner == nullptr ? *value : *inner,
                        format.path_of(inner == nullptr ? "" : "json_schema."));
    RequestFields& holder = inner == nullptr ? format : place;
    for (const auto* known : {"type", "name", "description", "strict"}) holder.get(known);
    read_schema(holder, "schema", form, Need::kMustBeThere);
    schema_path = holder.path_of("schema");
    if (inner != nullptr) {
      refuse_misplaced_form(place, *inner, schema_path);
      fields.adopt(place.finish());
    }
  } else if (type == "text") {
    for (const auto* schema : {"schema", "json_schema"}) format.refuse(schema, "belongs to the type json_schema");
  } else {
    format.reject("type", "must be text, json_object or json_schema");
  }
  for (const auto* known : {"name", "description", "strict"}) format.get(known);
  refuse_misplaced_form(format, *value, schema_path);
  fields.adopt(format.finish());
}

void read_format(RequestFields& fields, std::string_view name, chat::AnswerForm& form) {
  const ordered_json* value = fields.get(name);
  if (value == nullptr || value->is_null() || *value == "") return;
  if (*value == "json") return put(fields, name, {.kind = Kind::kJsonObject, .field = fields.path_of(name)}, form);
  if (!value->is_object()) return fields.reject(name, "must be \"json\" or a JSON Schema");
  put_schema(fields, name, *value, form);
}

void read_output_format(RequestFields& fields, std::string_view name, chat::AnswerForm& form) {
  const ordered_json* value = fields.object(name);
  if (value == nullptr) return;
  RequestFields format(fields.context(), *value, fields.path_of(name) + ".");
  if (format.string("type", "") != "json_schema") format.reject("type", "must be json_schema");
  for (const auto* known : {"name", "description", "strict"}) format.get(known);
  read_schema(format, "schema", form, Need::kMustBeThere);
  refuse_misplaced_form(format, *value, format.path_of("schema"));
  fields.adopt(format.finish());
}

}  // namespace cairn::api
