/// Reads what a request gives as an expression or a list, rather than as a grammar.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "grammar/grammar.h"

namespace cairn::grammar {

inline constexpr size_t kChoicesMax = 100'000;
inline constexpr size_t kChoiceBytesMax = 8 << 20;  ///< of all choices together

/// The texts that the expression matches as a whole. Errors: those of read_regex; kInvalidArgument (it matches no
/// text).
Result<std::shared_ptr<const Grammar>> read_regex_grammar(std::string_view pattern);

/// Exactly these texts. Errors: kInvalidArgument (none, or one that is not UTF-8; `at` is its index), kTooLarge.
Result<std::shared_ptr<const Grammar>> read_choice(std::span<const std::string> choices);
/// Adds the choice to a larger grammar, as a terminal.
Result<SymbolId> add_choice(GrammarBuilder& builder, std::span<const std::string> choices);

}  // namespace cairn::grammar
