#include "grammar/grammar_source.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "grammar/grammar_tables.h"
#include "grammar/json_schema/json_schema.h"
#include "grammar/masks/token_mask.h"
#include "grammar/readers/gbnf_reader.h"
#include "grammar/readers/lark_reader.h"
#include "grammar/readers/regex_reader.h"
#include "grammar/readers/text_readers.h"

namespace cairn::grammar {
namespace {

using Made = Result<std::shared_ptr<const Grammar>>;

Made compile_schema(const nlohmann::ordered_json& schema, SchemaReading reading) {
  auto made = compile_json_schema(schema, {.reading = reading});
  if (!made) return std::unexpected(made.error().error());
  return *std::move(made);
}

Made compile_object() {
  GrammarBuilder builder;
  return builder.finish(add_json_object(builder, Whitespace::kPretty));
}

Made compile_kind(const GrammarSource& source, SchemaReading reading) {
  switch (source.kind) {
    case GrammarSource::Kind::kJsonObject:
      return compile_object();
    case GrammarSource::Kind::kJsonSchema:
      return compile_schema(source.schema, reading);
    case GrammarSource::Kind::kRegex:
      return read_regex_grammar(source.text);
    case GrammarSource::Kind::kGbnf:
      return read_gbnf(source.text);
    case GrammarSource::Kind::kLark:
      return read_lark(source.text, SchemaAdder{reading});
    case GrammarSource::Kind::kChoice:
      return read_choice(source.choices);
    case GrammarSource::Kind::kCalls:
      return compile_calls(source.forms, source.tools, reading);
  }
  return fail(Code::kInternal, "a grammar of no kind");
}

Result<SymbolId> add_regex(GrammarBuilder& builder, std::string_view text) {
  CAIRN_TRY(const RegexId regex, read_regex(builder.regexes(), text));
  return builder.terminal(regex);
}

Result<SymbolId> add_kind(GrammarBuilder& builder, const GrammarSource& source, SchemaReading reading) {
  switch (source.kind) {
    case GrammarSource::Kind::kJsonObject:
      return add_json_object(builder, Whitespace::kPretty);
    case GrammarSource::Kind::kJsonSchema:
      return SchemaAdder{reading}(builder, source.schema);
    case GrammarSource::Kind::kRegex:
      return add_regex(builder, source.text);
    case GrammarSource::Kind::kGbnf:
      return add_gbnf(builder, source.text);
    case GrammarSource::Kind::kLark:
      return add_lark(builder, source.text, Spelling::kUtf8, SchemaAdder{reading});
    case GrammarSource::Kind::kChoice:
      return add_choice(builder, source.choices);
    case GrammarSource::Kind::kCalls:
      return add_calls(builder, source.forms, source.tools, reading);
  }
  return fail(Code::kInternal, "a grammar of no kind");
}

Made compile_in_frame(const GrammarSource& source, const MessageFrame& frame, SchemaReading reading) {
  GrammarBuilder builder;
  CAIRN_TRY(const SymbolId text, add_kind(builder, source, reading));
  // If no text fitted, the model would have to call a tool, or to think for ever.
  CAIRN_TRY(const std::optional<size_t> empty, builder.first_without_text({{text}}));
  if (empty) return fail(Code::kInvalidArgument, "no text fits it");
  const SymbolId start = builder.rule("messages");
  for (const std::string& open : frame.answer_opens) builder.add(start, {builder.literal(open), text});
  if (!frame.thinking_open.empty()) {
    const RegexId thoughts = builder.regexes().repeat(builder.regexes().bytes(text_bytes()), 0, std::nullopt);
    builder.add(start, {builder.literal(frame.thinking_open), builder.terminal(thoughts),
                        builder.literal(frame.thinking_close), start});
  }
  if (!source.forms.empty()) {
    CAIRN_TRY(const SymbolId calls, add_calls(builder, source.forms, source.tools, reading));
    builder.add(start, {calls});
  }
  return builder.finish(start);
}

// The key of a text; its bytes need not be characters.
nlohmann::ordered_json key_of(const std::string& bytes) {
  return nlohmann::ordered_json::binary({bytes.begin(), bytes.end()});
}

nlohmann::ordered_json key_of(const std::vector<std::string>& texts) {
  nlohmann::ordered_json key = nlohmann::ordered_json::array();
  for (const std::string& text : texts) key.push_back(key_of(text));
  return key;
}

// The key of a form: all that it says.
nlohmann::ordered_json key_of(const CallForm& form) {
  const CallForm::Parameter& parameter = form.parameter;
  const Notation& notation = form.notation;
  nlohmann::ordered_json key = {form.repeats,
                                static_cast<int>(form.spacing),
                                form.id_bytes,
                                form.id_member,
                                static_cast<int>(form.arguments),
                                parameter.has_texts,
                                parameter.marked,
                                notation.escapes,
                                notation.single_quotes,
                                notation.bare_keys};
  for (const auto& text : {form.call_open, form.call_close, form.separator, form.close, parameter.open,
                           parameter.key_close, parameter.other_key_close, parameter.close, parameter.between,
                           parameter.text_open, parameter.text_close, notation.open_quote, notation.close_quote})
    key.push_back(key_of(text));
  for (const auto& texts : {form.opens, form.name_closes, notation.absent, notation.null, notation.no, notation.yes})
    key.push_back(key_of(texts));
  return key;
}

// Sources with equal keys have the same language.
std::string key_of(const GrammarSource& source) {
  nlohmann::ordered_json key{static_cast<int>(source.kind), source.text, source.schema, source.choices};
  for (const CallForm& form : source.forms) key.push_back(key_of(form));
  for (const CalledTool& tool : source.tools) {
    nlohmann::ordered_json kinds = nlohmann::ordered_json::object();
    for (const auto& [name, kind] : tool.kinds) kinds[name] = static_cast<int>(kind);
    if (tool.input) {
      const CallInput& input = *tool.input;
      key.push_back({tool.name, input.key, static_cast<int>(input.syntax), input.definition});
      continue;
    }
    key.push_back({tool.name, tool.strict, tool.lenient, std::move(kinds), tool.schema});
  }
  if (source.frame) {
    const MessageFrame& frame = *source.frame;
    key.push_back({key_of(frame.thinking_open), key_of(frame.thinking_close), key_of(frame.answer_opens)});
  }
  return key.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

Result<std::shared_ptr<const Grammar>> compile(const GrammarSource& source, SchemaReading reading) {
  Made made = source.frame ? compile_in_frame(source, *source.frame, reading) : compile_kind(source, reading);
  if (made || made.error().code == Code::kInternal) return made;
  Error error = std::move(made).error();
  if (error.message.find(error.at) == std::string::npos) error.message = error.at + ": " + error.message;
  error.at = source.field;
  return std::unexpected(std::move(error));
}

void GrammarCache::tell_reading(const GrammarSource& source) {
  const bool matters = (source.kind == GrammarSource::Kind::kJsonSchema && leaves_keys_open(source.schema)) ||
                       std::ranges::any_of(source.tools, [](const CalledTool& tool) {
                         return tool.strict && leaves_keys_open(tool.schema);
                       });
  if (!matters) return;
  std::call_once(told_, [&] {
    if (reading_ == SchemaReading::kDeclared)
      log_info(
          "a schema has properties without additionalProperties: answers have the declared keys only "
          "(--schema-additional standard allows others)");
    else
      log_info(
          "a schema has properties without additionalProperties: answers may have other keys, as JSON Schema says");
  });
}

Result<std::shared_ptr<const Grammar>> GrammarCache::get(const GrammarSource& source) {
  std::string key = key_of(source);
  const auto find = [&] { return std::ranges::find(entries_, key, &Entry::source); };
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = find(); found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
      return entries_.front().grammar;
    }
  }
  tell_reading(source);
  CAIRN_TRY(std::shared_ptr<const Grammar> grammar, compile(source, reading_));
  const std::lock_guard lock(mutex_);
  if (find() != entries_.end()) return grammar;  // another thread was faster
  const size_t bytes = grammar->bytes();
  source_bytes_ += key.size();
  grammar_bytes_ += bytes;
  entries_.push_front({std::move(key), grammar, bytes});
  const auto too_large = [&] { return source_bytes_ > kSourceBytesMax || grammar_bytes_ > kGrammarBytesMax; };
  while (entries_.size() > kGrammarsMax || (too_large() && entries_.size() > 1)) {
    source_bytes_ -= entries_.back().source.size();
    grammar_bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
  return grammar;
}

}  // namespace cairn::grammar
