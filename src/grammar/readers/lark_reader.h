/// Reads grammars in the dialect of Lark that clients of custom tools send.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/function_ref.h"
#include "grammar/grammar.h"
#include "grammar/readers/characters.h"

namespace cairn::grammar {

inline constexpr size_t kLarkRegexesMax = 20'000;  ///< regular expressions between slashes in one grammar
inline constexpr size_t kLarkSchemasMax = 200;     ///< schemas in one grammar

/// Adds the rules of a JSON schema: json_schema/ stands above the readers.
using AddSchema = FunctionRef<Result<SymbolId>(GrammarBuilder&, const nlohmann::ordered_json&)>;

/// The language of the rule `start`, over characters: a terminal may match any text of its expression, also where a
/// longer one would do, and priorities change nothing.
///
/// Read: rules and terminals, "literal", "literal"i, "a".."z", /regex/ with the flags i, m, s, u, groups, [optional]
/// parts, `|`, `*`, `+`, `?`, `~n`, `~m..n`, `{m,n}`, aliases and the marks of trees (without effect), comments with
/// `//` or `#`, `%ignore`, and `%import common.NAME`. Of llguidance's dialect: `%llguidance {}`; `%json {...}` in
/// rules, if there is an `add_schema`, within which nothing is ignored; `%regex {...}` of substrings (substring.h);
/// names with hyphens; and behind a rule's name [capture], and [max_tokens=N], which is not held to; the log says so.
/// In regular expressions `.` is every character but \n. Errors have "line:column" in `at`: kInvalidArgument (no Lark;
/// a name that is not defined, or twice; a terminal that refers to itself; `start` is missing or matches no text),
/// kUnsupported (templates, other directives and attributes, references to tokens, assertions in terminals; what
/// add_schema refuses), kTooLarge (over a limit, which is named).
Result<std::shared_ptr<const Grammar>> read_lark(std::string_view text, std::optional<AddSchema> add_schema = {});
/// Adds the language to a larger grammar, as rules whose texts are in a spelling.
Result<SymbolId> add_lark(GrammarBuilder& builder, std::string_view text, Spelling spelling,
                          std::optional<AddSchema> add_schema = {});

}  // namespace cairn::grammar
