/// What a line of `cairn grammar check` and `cairn grammar sample` asks for, and its grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/json_schema/json_schema.h"
#include "grammar_check/token_cut.h"

namespace cairn {

/// An error of a line, with the keyword of a schema where there is one.
struct LineError {
  Error error;
  std::string keyword;
};

/// The grammar that a line's kind (schema, regex, gbnf, lark, choice, json) and options give. `reading` is that of
/// schemas whose line says nothing. Errors: kInvalidArgument
/// (none or several kinds, or a field of the wrong type, which is named), and those of the readers.
std::expected<std::shared_ptr<const grammar::Grammar>, LineError> compile_line(const nlohmann::ordered_json& line,
                                                                               grammar::SchemaReading reading);

/// The field `instances`; without it, none. Errors: kInvalidArgument.
Result<std::vector<std::string>> instances_of(const nlohmann::ordered_json& line);
/// The field `tokens`. Errors: kInvalidArgument.
Result<std::optional<TokenCut>> token_cut_of(const nlohmann::ordered_json& line);
/// A field that is a whole number of at least 0; `otherwise` where it is missing. Errors: kInvalidArgument.
Result<uint64_t> count_of(const nlohmann::ordered_json& line, const char* name, uint64_t otherwise);

}  // namespace cairn
