/// Reads grammars in the dialect of Lark that clients of custom tools send.
#pragma once

#include <memory>
#include <string_view>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/readers/characters.h"

namespace cairn::grammar {

inline constexpr size_t kLarkRegexesMax = 20'000;  ///< regular expressions between slashes in one grammar

/// The language of the rule `start`, over characters: a terminal may match any text of its expression, also where a
/// longer one would do, and priorities change nothing.
///
/// Read: rules and terminals, "literal", "literal"i, "a".."z", /regex/ with the flags i, m, s, u, groups, [optional]
/// parts, `|`, `*`, `+`, `?`, `~n`, `~m..n`, `{m,n}`, aliases and the marks of trees (without effect), comments with
/// `//` or `#`, `%ignore`, and `%import common.NAME`. Of llguidance's dialect: `%llguidance {}`, and behind a rule's
/// name [capture], and [max_tokens=N], which is not held to; the log says so. In regular expressions `.` is every
/// character but \n. Errors have "line:column" in `at`: kInvalidArgument (no Lark; a name that is not defined, or
/// twice; a terminal that refers to itself; `start` is missing or matches no text), kUnsupported (templates, other
/// directives, references to tokens, assertions in terminals), kTooLarge (over a limit, which is named).
Result<std::shared_ptr<const Grammar>> read_lark(std::string_view text);
/// Adds the language to a larger grammar, as rules whose texts are in a spelling.
Result<SymbolId> add_lark(GrammarBuilder& builder, std::string_view text, Spelling spelling);

}  // namespace cairn::grammar
