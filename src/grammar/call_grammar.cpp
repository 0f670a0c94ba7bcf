#include "grammar/call_grammar.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "grammar/readers/lark_reader.h"
#include "grammar/readers/regex_reader.h"

namespace cairn::grammar {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMarkupSpace = " \t\r\n";

RegexId join(RegexPool& pool, std::initializer_list<RegexId> parts) { return pool.sequence(parts); }

RegexId call_id(RegexPool& pool, uint32_t bytes) {
  const ByteSet set = ByteSet::range('a', 'z') | ByteSet::range('A', 'Z') | ByteSet::range('0', '9');
  if (bytes > 0) return pool.repeat(pool.bytes(set), bytes, bytes);
  return pool.repeat(pool.bytes(set | ByteSet::of("_-")), 1, kCallIdBytesMax);
}

/// What a placeholder at the beginning of `text` stands for, and its length.
std::optional<std::pair<RegexId, size_t>> placeholder(RegexPool& pool, std::string_view text, uint32_t id_bytes) {
  constexpr std::string_view kIndex = "{index}", kId = "{id}", kType = "{type}";
  if (text.starts_with(kIndex))
    return std::pair(pool.repeat(pool.bytes(ByteSet::range('0', '9')), 1, kCallIndexDigitsMax), kIndex.size());
  if (text.starts_with(kId)) return std::pair(call_id(pool, id_bytes), kId.size());
  if (!text.starts_with(kType)) return std::nullopt;
  std::vector<RegexId> types;
  for (const std::string_view type : {"boolean", "null", "number", "object", "array"})
    types.push_back(pool.literal(type));
  return std::pair(pool.any_of(types), kType.size());
}

/// Makes a block's rules.
class BlockWriter {
 public:
  BlockWriter(GrammarBuilder& builder, const std::vector<CalledTool>& tools, std::vector<SymbolId> arguments)
      : builder_(builder), tools_(tools), arguments_(std::move(arguments)) {}

  void add(SymbolId start, const CallForm& form) {
    form_ = &form;
    const SymbolId calls = many_calls();
    const SymbolId close = text(form.close);
    for (const std::string& open : form.opens) {
      builder_.add(start, {text(open), text(form.spacing == Spacing::kJson ? " " : ""), calls, close});
      if (open.empty()) builder_.add(start, {calls});
    }
  }

 private:
  RegexPool& pool() { return builder_.regexes(); }
  SymbolId text(std::string_view markup_text) {
    return builder_.terminal(markup(pool(), markup_text, form_->spacing, form_->id_bytes));
  }

  SymbolId many_calls() {
    const SymbolId call = builder_.rule("call");
    for (const std::string& name_close : form_->name_closes) {
      for (size_t i = 0; i < tools_.size(); ++i) {
        const std::string written = written_name(tools_[i].name);
        add_call(call, written, name_close, arguments_[i]);
        // The opening of a forced call has the name without JSON's escapes.
        if (written != tools_[i].name) add_call(call, tools_[i].name, name_close, arguments_[i]);
      }
    }
    if (!form_->repeats) return call;
    const SymbolId next[] = {text(form_->separator), call};
    const SymbolId all[] = {call, builder_.repeat(builder_.sequence(next), 0, std::nullopt)};
    return builder_.sequence(all);
  }

  std::string written_name(const std::string& name) const {
    if (form_->spacing != Spacing::kJson) return name;
    const std::string quoted = Json(name).dump(-1, ' ', false, Json::error_handler_t::replace);
    return quoted.substr(1, quoted.size() - 2);
  }

  void add_call(SymbolId call, const std::string& name, std::string_view name_close, SymbolId arguments) {
    const RegexId begin =
        join(pool(), {markup(pool(), form_->call_open, form_->spacing, form_->id_bytes), pool().literal(name),
                      markup(pool(), name_close, form_->spacing, form_->id_bytes)});
    std::vector<SymbolId> symbols{builder_.terminal(begin), arguments};
    if (form_->id_member) symbols.push_back(builder_.optional(text(R"(, "id": "{id}")")));
    if (form_->arguments == CallForm::Arguments::kParameters) symbols.push_back(text(" "));
    symbols.push_back(text(form_->call_close));
    builder_.add(call, symbols);
  }

  GrammarBuilder& builder_;
  const std::vector<CalledTool>& tools_;
  std::vector<SymbolId> arguments_;
  const CallForm* form_ = nullptr;
};

ParameterMarkup parameter_markup(RegexPool& pool, const CallForm& form, const CalledTool& tool) {
  const CallForm::Parameter& written = form.parameter;
  const auto flexible = [&](std::string_view text) { return markup(pool, text, Spacing::kMarkup, form.id_bytes); };
  const RegexId space = flexible(" ");
  // The white space next to a text is exactly that.
  const std::string_view key_close = written.key_close, close = written.close;
  const std::string_view closed_key = key_close.substr(0, key_close.find_last_not_of(kMarkupSpace) + 1);
  const std::string_view closer = close.substr(std::min(close.find_first_not_of(kMarkupSpace), close.size()));
  const std::string_view other_key = written.other_key_close.empty() ? closed_key : written.other_key_close;
  ParameterMarkup out{.open = flexible(written.open),
                      .key_close = join(pool, {flexible(other_key), space}),
                      .close = join(pool, {space, flexible(closer)}),
                      .between = join(pool, {space, flexible(written.between), space})};
  if (written.has_texts) {
    out.text_key_close = join(pool, {flexible(closed_key), pool.literal(key_close.substr(closed_key.size()))});
    out.text_close = join(pool, {pool.literal(close.substr(0, close.size() - closer.size())), flexible(closer)});
    out.wrap_open = pool.literal(written.text_open);
    out.wrap_close = pool.literal(written.text_close);
  }
  out.kinds = tool.kinds;
  out.other_kind = written.marked ? ParameterKind::kMarked : ParameterKind::kEither;
  if (written.marked) out.kinds.clear();
  if (const auto names = tool.schema.find("properties"); !tool.strict && names != tool.schema.end()) {
    std::vector<RegexId> keys;
    for (const auto& [name, schema] : names->items()) keys.push_back(pool.literal(name));
    out.more_keys = pool.any_of(keys);
  }
  if (!tool.strict && written.has_texts) {
    out.kinds.clear();
    out.other_kind = written.marked ? ParameterKind::kMarked : ParameterKind::kAnyText;
  }
  return out;
}

/// An input's string alone. Errors: those of its language's reader.
Result<SymbolId> add_language(GrammarBuilder& builder, const CallInput& input, Spelling spelling) {
  if (input.syntax == CallInput::Syntax::kLark) return add_lark(builder, input.definition, spelling);
  CAIRN_TRY(const RegexId regex, read_regex(builder.regexes(), input.definition, {.spelling = spelling}));
  return builder.terminal(regex);
}

Result<SymbolId> add_input(GrammarBuilder& builder, const CallForm& form, const CalledTool& tool) {
  const CallInput& input = *tool.input;
  RegexPool& pool = builder.regexes();
  JsonText text(pool, form.notation);
  const RegexId key = text.key_of(input.key);
  const RegexId space = text.whitespace(Whitespace::kPretty);
  const RegexId quote = pool.literal(form.notation.open_quote), end_quote = pool.literal(form.notation.close_quote);
  const Spelling spelling = form.notation.escapes ? Spelling::kJsonPlain : Spelling::kUtf8;
  const auto around = [&](RegexId before, RegexId after, Spelling spelled) -> Result<SymbolId> {
    CAIRN_TRY(const SymbolId string, add_language(builder, input, spelled));
    const SymbolId all[] = {builder.terminal(before), string, builder.terminal(after)};
    return builder.sequence(all);
  };
  if (form.arguments == CallForm::Arguments::kObject)
    return around(join(pool, {pool.literal("{"), space, key, space, pool.literal(":"), space, quote}),
                  join(pool, {end_quote, space, pool.literal("}")}), spelling);
  const ParameterMarkup written = parameter_markup(pool, form, tool);
  const RegexId open = join(pool, {written.open, pool.literal(input.key)});
  if (form.parameter.has_texts)
    return around(join(pool, {open, written.text_key_close}), written.text_close, Spelling::kUtf8);
  return around(join(pool, {open, written.key_close, quote}), join(pool, {end_quote, written.close}), spelling);
}

SchemaResult<SymbolId> add_arguments(GrammarBuilder& builder, const CallForm& form, const CalledTool& tool,
                                     SchemaReading reading) {
  const Json schema = tool.strict ? tool.schema : Json{{"type", "object"}};
  const SchemaOptions options{.reading = reading, .notation = form.notation};
  if (form.arguments == CallForm::Arguments::kObject) return add_json_schema(builder, schema, options);
  return add_parameters(builder, schema, parameter_markup(builder.regexes(), form, tool), options);
}

}  // namespace

RegexId markup(RegexPool& pool, std::string_view text, Spacing spacing, uint32_t id_bytes) {
  constexpr std::string_view kPunctuation = "{}[]:,;";
  const RegexId space = JsonText(pool).whitespace(Whitespace::kPretty);
  std::vector<RegexId> parts;
  bool spaced = false;  // the last part is `space`
  const auto add_space = [&] {
    if (!std::exchange(spaced, true)) parts.push_back(space);
  };
  for (size_t at = 0; at < text.size();) {
    if (const auto found = placeholder(pool, text.substr(at), id_bytes)) {
      parts.push_back(found->first);
      at += found->second;
      spaced = false;
      continue;
    }
    const char byte = text[at++];
    if (spacing != Spacing::kNone && kMarkupSpace.contains(byte)) {
      const size_t end = std::min(text.find_first_not_of(kMarkupSpace, at), text.size());
      const std::string_view run = text.substr(at - 1, end - at + 1);
      if (spacing == Spacing::kJson || at == 1 || end == text.size() || run.contains('\n'))
        add_space();
      else
        parts.push_back(pool.literal(run));
      at = end;
      continue;
    }
    const bool punctuation = spacing == Spacing::kJson && kPunctuation.contains(byte);
    if (punctuation && at > 1) add_space();
    parts.push_back(pool.literal(std::string_view(&byte, 1)));
    spaced = false;
    if (punctuation && at < text.size()) add_space();
  }
  return pool.sequence(parts);
}

Result<SymbolId> add_calls(GrammarBuilder& builder, const std::vector<CallForm>& forms,
                           const std::vector<CalledTool>& tools, SchemaReading reading) {
  std::vector<SymbolId> arguments;
  for (const CalledTool& tool : tools) {
    if (tool.input) {
      auto made = add_input(builder, forms.front(), tool);
      if (!made) return fail_at(tool.field + ":" + made.error().at, made.error().code, "{}", made.error().message);
      arguments.push_back(*made);
      continue;
    }
    auto made = add_arguments(builder, forms.front(), tool, reading);
    if (!made && tool.strict && tool.lenient) {
      log_warning("{}{}: {}; its arguments are not held to the schema", tool.field, made.error().at,
                  made.error().message);
      CalledTool free = tool;
      free.strict = false;
      made = add_arguments(builder, forms.front(), free, reading);
    }
    if (!made) {
      const Error error = made.error().error();
      return fail_at(tool.field + error.at, error.code, "{}", error.message);
    }
    arguments.push_back(*made);
  }
  // If no arguments fitted, the model could not call the tool, and nobody would know.
  CAIRN_TRY(const std::optional<size_t> empty, builder.first_without_text(arguments));
  if (empty) return fail_at(tools[*empty].field, Code::kInvalidArgument, "no value fits the schema");
  const SymbolId start = builder.rule("block of calls");
  BlockWriter writer(builder, tools, std::move(arguments));
  for (const CallForm& form : forms) writer.add(start, form);
  return start;
}

Result<std::shared_ptr<const Grammar>> compile_calls(const std::vector<CallForm>& forms,
                                                     const std::vector<CalledTool>& tools, SchemaReading reading) {
  GrammarBuilder builder;
  CAIRN_TRY(const SymbolId calls, add_calls(builder, forms, tools, reading));
  return builder.finish(calls);
}

}  // namespace cairn::grammar
