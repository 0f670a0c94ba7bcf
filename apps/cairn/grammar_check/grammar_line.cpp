#include "grammar_check/grammar_line.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "grammar/json_schema/json_schema.h"
#include "grammar/readers/gbnf_reader.h"
#include "grammar/readers/lark_reader.h"
#include "grammar/readers/text_readers.h"

namespace cairn {

namespace {

using nlohmann::ordered_json;
using CompiledLine = std::expected<std::shared_ptr<const grammar::Grammar>, LineError>;

constexpr std::string_view kKinds[] = {"schema", "regex", "gbnf", "lark", "choice", "json"};

std::unexpected<LineError> line_error(Error error) { return std::unexpected(LineError{std::move(error), {}}); }

CompiledLine without_keyword(Result<std::shared_ptr<const grammar::Grammar>> made) {
  if (!made) return line_error(std::move(made).error());
  return *std::move(made);
}

// The option's value by its text; that of the first text where it is missing.
template <class T>
Result<T> option_of(const ordered_json& options, const char* name,
                    std::initializer_list<std::pair<std::string_view, T>> values) {
  const auto found = options.find(name);
  if (found == options.end()) return values.begin()->second;
  std::string expected;
  for (const auto& [text, value] : values) {
    if (*found == text) return value;
    expected += fmt::format("{}\"{}\"", expected.empty() ? "" : ", ", text);
  }
  return fail_at(fmt::format("options.{}", name), Code::kInvalidArgument, "expected one of {}", expected);
}

Result<grammar::SchemaOptions> schema_options(const ordered_json& line, grammar::SchemaReading reading) {
  using grammar::Draft;
  using grammar::SchemaReading;
  using grammar::Whitespace;
  grammar::SchemaOptions out{.reading = reading, .whitespace = Whitespace::kAny};
  if (const auto remotes = line.find("remotes"); remotes != line.end()) {
    if (!remotes->is_object()) return fail_at("remotes", Code::kInvalidArgument, "expected an object");
    for (const auto& [uri, document] : remotes->items()) out.remotes.emplace(uri, document);
  }
  const auto found = line.find("options");
  if (found == line.end()) return out;
  if (!found->is_object()) return fail_at("options", Code::kInvalidArgument, "expected an object");
  CAIRN_TRY(
      out.whitespace,
      option_of<Whitespace>(*found, "whitespace",
                            {{"any", Whitespace::kAny}, {"pretty", Whitespace::kPretty}, {"none", Whitespace::kNone}}));
  CAIRN_TRY(out.reading,
            option_of<SchemaReading>(
                *found, "additional",
                {{"", reading}, {"declared", SchemaReading::kDeclared}, {"standard", SchemaReading::kStandard}}));
  CAIRN_TRY(out.assert_formats, option_of<bool>(*found, "format", {{"assert", true}, {"annotate", false}}));
  CAIRN_TRY(out.draft, option_of<std::optional<Draft>>(*found, "draft",
                                                       {{"", std::nullopt},
                                                        {"4", Draft::k4},
                                                        {"6", Draft::k6},
                                                        {"7", Draft::k7},
                                                        {"2019-09", Draft::k2019},
                                                        {"2020-12", Draft::k2020}}));
  CAIRN_TRY(out.order,
            option_of<grammar::KeyOrder>(*found, "order",
                                         {{"schema", grammar::KeyOrder::kSchema}, {"any", grammar::KeyOrder::kAny}}));
  return out;
}

CompiledLine compile_schema(const ordered_json& schema, const grammar::SchemaOptions& options) {
  auto made = grammar::compile_json_schema(schema, options);
  if (!made) {
    grammar::SchemaError& error = made.error();
    return std::unexpected(
        LineError{{error.code, std::move(error.message), std::move(error.at)}, std::move(error.keyword)});
  }
  return *std::move(made);
}

CompiledLine compile_json(const ordered_json& value, const grammar::SchemaOptions& options) {
  if (value != true) return line_error({Code::kInvalidArgument, "expected true", "json"});
  grammar::GrammarBuilder builder;
  const grammar::SymbolId object = grammar::add_json_object(builder, options.whitespace);
  return without_keyword(builder.finish(object));
}

Result<std::vector<std::string>> texts_of(const ordered_json& value, const char* name) {
  std::vector<std::string> texts;
  const auto invalid = [name] { return fail_at(name, Code::kInvalidArgument, "expected a list of strings"); };
  if (!value.is_array()) return invalid();
  for (const ordered_json& text : value) {
    if (!text.is_string()) return invalid();
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace

std::expected<std::shared_ptr<const grammar::Grammar>, LineError> compile_line(const ordered_json& line,
                                                                               grammar::SchemaReading reading) {
  std::string_view kind;
  for (const std::string_view name : kKinds) {
    if (!line.contains(name)) continue;
    if (!kind.empty())
      return line_error({Code::kInvalidArgument, fmt::format("there are both {} and {}", kind, name), {}});
    kind = name;
  }
  if (kind.empty())
    return line_error({Code::kInvalidArgument, fmt::format("expected one of {}", fmt::join(kKinds, ", ")), {}});
  const ordered_json& value = line.at(kind);
  if (kind == "choice") {
    const Result<std::vector<std::string>> choices = texts_of(value, "choice");
    if (!choices) return line_error(choices.error());
    return without_keyword(grammar::read_choice(*choices));
  }
  const Result<grammar::SchemaOptions> options = schema_options(line, reading);
  if (!options) return line_error(options.error());
  if (kind == "schema") return compile_schema(value, *options);
  if (kind == "json") return compile_json(value, *options);
  if (!value.is_string())
    return line_error({Code::kInvalidArgument, fmt::format("expected a string for {}", kind), {}});
  const auto& text = value.get_ref<const std::string&>();
  if (kind == "regex") return without_keyword(grammar::read_regex_grammar(text));
  if (kind == "gbnf") return without_keyword(grammar::read_gbnf(text));
  return without_keyword(grammar::read_lark(text, grammar::SchemaAdder{options->reading}));
}

Result<std::vector<std::string>> instances_of(const ordered_json& line) {
  const auto found = line.find("instances");
  if (found == line.end()) return std::vector<std::string>{};
  return texts_of(*found, "instances");
}

Result<std::optional<TokenCut>> token_cut_of(const ordered_json& line) {
  const auto found = line.find("tokens");
  if (found == line.end() || found->is_null()) return std::nullopt;
  if (*found == "canonical") return TokenCut{TokenCut::Way::kCanonical, 0};
  if (*found == "bytes") return TokenCut{TokenCut::Way::kBytes, 0};
  if (found->is_object() && found->size() == 1 && found->contains("random")) {
    CAIRN_TRY(const uint64_t seed, count_of(*found, "random", 0));
    return TokenCut{TokenCut::Way::kRandom, seed};
  }
  return fail_at("tokens", Code::kInvalidArgument, R"(expected "canonical", "bytes" or {{"random": SEED}})");
}

Result<uint64_t> count_of(const ordered_json& line, const char* name, uint64_t otherwise) {
  const auto found = line.find(name);
  if (found == line.end() || found->is_null()) return otherwise;
  if (!found->is_number_unsigned()) return fail_at(name, Code::kInvalidArgument, "expected a whole number");
  return found->get<uint64_t>();
}

}  // namespace cairn
