/// Flags of subcommands whose answers can be held to a form.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "chat/answer/request.h"
#include "grammar/grammar_source.h"

namespace cairn {

/// --schema-additional
CLI::Option* add_schema_reading_flag(CLI::App& command, grammar::SchemaReading& reading);

struct FormFlags {
  std::string schema_file;
  std::string grammar_file;
  std::string regex;
  grammar::SchemaReading reading = grammar::SchemaReading::kDeclared;

  void add_to(CLI::App& command);
  /// What the flags ask for; nothing if there are none. A grammar file is GBNF where it has "::=", else Lark. Errors:
  /// kIo, kInvalidArgument (the file is no JSON).
  Result<chat::AnswerForm> read() const;
};

/// Compiles the form, if there is one, into `grammars`, before a model is loaded for it. Errors: those of compile(),
/// with the flag.
Result<void> check_form(const chat::AnswerForm& form, grammar::GrammarCache& grammars);

/// The form as fields of a request to a server (OpenAI's for a schema, vLLM's for others).
void add_form(const grammar::GrammarSource& form, nlohmann::ordered_json& request);

}  // namespace cairn
