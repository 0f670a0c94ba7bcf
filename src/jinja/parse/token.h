/// Splits a template's text into tokens and applies white-space control (trim_blocks, lstrip_blocks, `-`, `+`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "jinja/value/value.h"

namespace cairn::jinja {

enum class TokenKind : uint8_t {
  kData,  ///< text between tags
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,  ///< `text` is the operator
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int32_t line = 1;
  std::string text;  ///< data, name, operator, or the string's value
  Int integer = 0;
  double number = 0;
};

/// The last token is kEnd. Errors: kInvalidArgument with the line in `at`.
Result<std::vector<Token>> tokenize(std::string_view source);

/// "line 7"
std::string at_line(int32_t line);

}  // namespace cairn::jinja
