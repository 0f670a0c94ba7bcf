/// Reads GBNF, llama.cpp's form of grammars, with what xgrammar's EBNF adds to it.
#pragma once

#include <memory>
#include <string_view>

#include "base/error.h"
#include "grammar/grammar.h"

namespace cairn::grammar {

/// The language of the rule `root`.
///
/// A rule is `name ::= alternatives` and ends with its line, except within parentheses, after `|`, and where the next
/// line begins with `|`. Characters are Unicode scalar values, of escapes too; `.` is any of them. Left recursion and
/// counts up to kRegexCountMax are read. Errors have "line:column" in `at`: kInvalidArgument (no GBNF; a rule that is
/// not defined, or twice; `root` is missing or matches no text), kUnsupported (a reference to a token, xgrammar's
/// macros and lookaheads), kTooLarge (over a limit, which is named).
Result<std::shared_ptr<const Grammar>> read_gbnf(std::string_view text);
/// Adds the language to a larger grammar, as rules.
Result<SymbolId> add_gbnf(GrammarBuilder& builder, std::string_view text);

}  // namespace cairn::grammar
