/// Rules in extended Backus-Naur form: what GBNF and Lark have in common, and how they become a Grammar.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/regex/regex.h"

namespace cairn::grammar {

/// A rule without recursion becomes part of a regular expression where that has at most this many parts; otherwise it
/// stays a rule.
inline constexpr uint32_t kInlinedPartsMax = 2'000;
/// Expressions of all rules together.
inline constexpr size_t kExpressionsMax = 1'000'000;

/// An index into the rules.
enum class RuleId : uint32_t {};
/// An index into the expressions of all rules.
enum class ExpressionId : uint32_t {};

/// Builds the rules of one grammar. Expressions within each other are at most as deep as the reader's groups; each is
/// used once.
class EbnfRules {
 public:
  explicit EbnfRules(GrammarBuilder& builder) : builder_(builder) {}
  RegexPool& regexes() { return builder_.regexes(); }
  GrammarBuilder& builder() { return builder_; }

  ExpressionId regex(RegexId regex);
  ExpressionId reference(RuleId rule);
  /// What is in the builder already.
  ExpressionId symbol(SymbolId symbol);
  ExpressionId sequence(std::vector<ExpressionId> parts);
  ExpressionId choice(std::vector<ExpressionId> choices);
  /// `max` missing: no upper bound.
  ExpressionId repeat(ExpressionId inner, uint32_t min, std::optional<uint32_t> max);

  /// The rule of that name, which need not be defined yet. `offset`: where it is named, for errors.
  RuleId rule(std::string_view name, size_t offset);
  std::optional<RuleId> find(std::string_view name) const;
  bool is_defined(RuleId rule) const { return rules_[static_cast<size_t>(rule)].body.has_value(); }
  void define(RuleId rule, ExpressionId body) { rules_[static_cast<size_t>(rule)].body = body; }
  size_t size() const { return rules_.size(); }

  /// A rule that is named and not defined: its name and where it is named first.
  struct Undefined {
    std::string_view name;
    size_t offset;
  };
  std::optional<Undefined> undefined() const;

  /// The first of the rules that refers to itself, directly or through others. Needs: all rules are defined, and
  /// nothing is added from now on.
  std::optional<RuleId> recursive(std::span<const RuleId> rules);
  /// The rule's symbol, with all that it refers to. Errors: kTooLarge (kExpressionsMax). Needs: no rule is undefined.
  Result<SymbolId> write(RuleId start);

 private:
  struct Expression {
    enum class Kind : uint8_t { kRegex, kReference, kSymbol, kSequence, kChoice, kRepeat };
    Kind kind;
    RegexId regex{};
    RuleId rule{};
    SymbolId symbol{};
    uint32_t min = 0;
    std::optional<uint32_t> max{};
    std::vector<ExpressionId> children{};
  };
  // A language as a regular expression, and how many parts that has.
  struct Regular {
    RegexId regex;
    uint32_t parts;
  };
  struct Rule {
    std::string name;
    size_t offset;
    std::optional<ExpressionId> body{};
    std::optional<SymbolId> symbol{};  // once it is in the builder
    bool decided = false;              // known to have no recursion
    std::optional<Regular> regular{};
  };
  ExpressionId add(Expression expression);
  const Expression& operator[](ExpressionId id) const { return expressions_[static_cast<size_t>(id)]; }
  void decide_rules();
  std::optional<Regular> regular_of(ExpressionId id);
  std::optional<Regular> make_regular(const Expression& expression);
  std::vector<RuleId> references_of(RuleId rule) const;
  SymbolId symbol_of(ExpressionId id);
  SymbolId symbol_of(RuleId id);
  std::vector<SymbolId> parts_of(const Expression& sequence);
  std::vector<ExpressionId> alternatives_of(ExpressionId body);
  void add_alternatives(SymbolId symbol, ExpressionId body);

  GrammarBuilder& builder_;
  std::vector<Expression> expressions_;
  std::vector<Rule> rules_;
  std::map<std::string, RuleId, std::less<>> by_name_;
  std::vector<std::optional<std::optional<Regular>>> regular_;  // of expressions, once asked for
  bool rules_are_decided_ = false;
  std::vector<RuleId> to_define_;
};

}  // namespace cairn::grammar
