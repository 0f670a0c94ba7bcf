/// A context-free grammar whose terminals are regular expressions over bytes: the one form that JSON Schema, regular
/// expressions, GBNF, Lark and lists of choices are compiled to.
///
/// Its language is exactly what the rules say: a terminal may match any text of its expression, not only the longest,
/// so no two terminals ever get in each other's way, and a text may be parsed in several ways.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/member_list.h"
#include "grammar/regex/regex.h"

namespace cairn::grammar {

inline constexpr size_t kSymbolsMax = 500'000;  ///< symbols of a grammar, and of all its alternatives together

enum class SymbolId : uint32_t {};

/// Built once, then immutable; shared by the matchers of all requests that have it.
class Grammar;

/// Builds a grammar. Errors are remembered and given by finish().
class GrammarBuilder {
 public:
  GrammarBuilder();
  ~GrammarBuilder();

  RegexPool& regexes();

  /// A terminal. Equal expressions are one symbol.
  SymbolId terminal(RegexId regex);
  SymbolId literal(std::string_view text) { return terminal(regexes().literal(text)); }
  /// A rule to be defined later; `name` is for messages.
  SymbolId rule(std::string name);
  /// Adds an alternative to a rule: its symbols in order; none: the empty text.
  void add(SymbolId rule, std::span<const SymbolId> symbols);
  void add(SymbolId rule, std::initializer_list<SymbolId> symbols) {
    add(rule, std::span(symbols.begin(), symbols.size()));
  }

  // Rules made of others.
  SymbolId sequence(std::span<const SymbolId> symbols);
  SymbolId any_of(std::span<const SymbolId> choices);
  SymbolId optional(SymbolId symbol);
  /// `max` missing: no upper bound. Counts cost nothing: the matcher counts.
  SymbolId repeat(SymbolId symbol, uint32_t min, std::optional<uint32_t> max);
  /// At least one of the elements, with the separator between them; which may come when is MemberList's matter, whose
  /// arguments the others are. Elements match no empty text. A list that cannot be completed matches
  /// nothing.
  SymbolId members(std::span<const SymbolId> elements, std::span<const MemberList::Element> kinds, uint32_t ordered,
                   SymbolId separator, uint32_t least, std::optional<uint32_t> most);
  /// At least one text of the expression, with the separator between them, and no text twice. Neither matches the empty
  /// text, and the expression has `min` texts. The matcher remembers the texts.
  SymbolId distinct(RegexId text, SymbolId separator, uint32_t min, std::optional<uint32_t> max);

  /// The first of the symbols that matches no text at all, all rules being defined; nothing if there is none. Errors:
  /// kTooLarge (a limit, by name).
  Result<std::optional<size_t>> first_without_text(std::span<const SymbolId> among);
  /// Symbols that match no text at all are taken out with the alternatives that need them. Errors: kTooLarge (a limit,
  /// by name), kInvalidArgument (a rule without a definition, by name; `start` matches no text).
  Result<std::shared_ptr<const Grammar>> finish(SymbolId start);

 private:
  SymbolId as_rule(SymbolId symbol);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::grammar
