#include "grammar/readers/ebnf_rules.h"

#include <algorithm>
#include <utility>

namespace cairn::grammar {

namespace {

size_t index(RuleId id) { return static_cast<size_t>(id); }
size_t index(ExpressionId id) { return static_cast<size_t>(id); }

}  // namespace

// ---- Expressions and rules ----

ExpressionId EbnfRules::add(Expression expression) {
  expressions_.push_back(std::move(expression));
  return ExpressionId{static_cast<uint32_t>(expressions_.size() - 1)};
}

ExpressionId EbnfRules::regex(RegexId regex) { return add({.kind = Expression::Kind::kRegex, .regex = regex}); }

ExpressionId EbnfRules::reference(RuleId rule) { return add({.kind = Expression::Kind::kReference, .rule = rule}); }

ExpressionId EbnfRules::symbol(SymbolId symbol) { return add({.kind = Expression::Kind::kSymbol, .symbol = symbol}); }

ExpressionId EbnfRules::sequence(std::vector<ExpressionId> parts) {
  if (parts.size() == 1) return parts.front();
  return add({.kind = Expression::Kind::kSequence, .children = std::move(parts)});
}

ExpressionId EbnfRules::choice(std::vector<ExpressionId> choices) {
  if (choices.size() == 1) return choices.front();
  return add({.kind = Expression::Kind::kChoice, .children = std::move(choices)});
}

ExpressionId EbnfRules::repeat(ExpressionId inner, uint32_t min, std::optional<uint32_t> max) {
  return add({.kind = Expression::Kind::kRepeat, .min = min, .max = max, .children = {inner}});
}

RuleId EbnfRules::rule(std::string_view name, size_t offset) {
  if (const std::optional<RuleId> known = find(name)) return *known;
  const RuleId id{static_cast<uint32_t>(rules_.size())};
  rules_.push_back({.name = std::string(name), .offset = offset});
  by_name_.emplace(name, id);
  return id;
}

std::optional<RuleId> EbnfRules::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<EbnfRules::Undefined> EbnfRules::undefined() const {
  const auto found = std::ranges::find_if(rules_, [](const Rule& rule) { return !rule.body.has_value(); });
  if (found == rules_.end()) return std::nullopt;
  return Undefined{found->name, found->offset};
}

// ---- What is regular ----

std::vector<RuleId> EbnfRules::references_of(RuleId rule) const {
  std::vector<RuleId> out;
  std::vector<ExpressionId> pending{*rules_[index(rule)].body};
  while (!pending.empty()) {
    const Expression& expression = (*this)[pending.back()];
    pending.pop_back();
    if (expression.kind == Expression::Kind::kReference) out.push_back(expression.rule);
    pending.insert(pending.end(), expression.children.begin(), expression.children.end());
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

// Decides rules after all that they refer to, so that those within a cycle, or above one, stay undecided.
void EbnfRules::decide_rules() {
  if (std::exchange(rules_are_decided_, true)) return;
  std::vector<size_t> waits_for(rules_.size());
  std::vector<std::vector<RuleId>> waiting(rules_.size());
  std::vector<RuleId> ready;
  for (size_t i = 0; i < rules_.size(); ++i) {
    const RuleId id{static_cast<uint32_t>(i)};
    const std::vector<RuleId> references = references_of(id);
    waits_for[i] = references.size();
    for (const RuleId other : references) waiting[index(other)].push_back(id);
    if (references.empty()) ready.push_back(id);
  }
  regular_.resize(expressions_.size());
  while (!ready.empty()) {
    const RuleId id = ready.back();
    ready.pop_back();
    rules_[index(id)].regular = regular_of(*rules_[index(id)].body);
    rules_[index(id)].decided = true;
    for (const RuleId other : waiting[index(id)])
      if (--waits_for[index(other)] == 0) ready.push_back(other);
  }
}

// Recursive, as deep as expressions are.
std::optional<EbnfRules::Regular> EbnfRules::regular_of(ExpressionId id) {
  if (const auto& known = regular_[index(id)]) return *known;
  std::optional<Regular> made = make_regular((*this)[id]);
  if (made && made->parts > kInlinedPartsMax) made.reset();
  regular_[index(id)] = made;
  return made;
}

std::optional<EbnfRules::Regular> EbnfRules::make_regular(const Expression& expression) {
  if (expression.kind == Expression::Kind::kRegex) return Regular{expression.regex, 1};
  if (expression.kind == Expression::Kind::kReference) return rules_[index(expression.rule)].regular;
  if (expression.kind == Expression::Kind::kSymbol) return std::nullopt;
  std::vector<RegexId> children;
  uint32_t parts = 1;
  bool regular = true;
  for (const ExpressionId child : expression.children) {
    const std::optional<Regular> inner = regular_of(child);
    if (!inner) {
      regular = false;  // the others are asked for, too, so that all are known
      continue;
    }
    children.push_back(inner->regex);
    parts = std::min(parts + inner->parts, kInlinedPartsMax + 1);
  }
  if (!regular) return std::nullopt;
  switch (expression.kind) {
    case Expression::Kind::kSequence:
      return Regular{regexes().sequence(children), parts};
    case Expression::Kind::kChoice:
      return Regular{regexes().any_of(children), parts};
    default:
      return Regular{regexes().repeat(children.front(), expression.min, expression.max), parts};
  }
}

std::optional<RuleId> EbnfRules::recursive(std::span<const RuleId> rules) {
  decide_rules();
  const auto found = std::ranges::find_if(rules, [this](RuleId id) { return !rules_[index(id)].decided; });
  return found == rules.end() ? std::nullopt : std::optional(*found);
}

// ---- The grammar ----

SymbolId EbnfRules::symbol_of(RuleId id) {
  Rule& rule = rules_[index(id)];
  if (rule.symbol) return *rule.symbol;
  if (rule.regular) {
    rule.symbol = builder_.terminal(rule.regular->regex);
  } else {
    rule.symbol = builder_.rule(rule.name);
    to_define_.push_back(id);
  }
  return *rule.symbol;
}

// Recursive, as deep as expressions are.
SymbolId EbnfRules::symbol_of(ExpressionId id) {
  if (const std::optional<Regular> regular = regular_of(id)) return builder_.terminal(regular->regex);
  const Expression& expression = (*this)[id];
  switch (expression.kind) {
    case Expression::Kind::kRegex:
      return builder_.terminal(expression.regex);
    case Expression::Kind::kReference:
      return symbol_of(expression.rule);
    case Expression::Kind::kSymbol:
      return expression.symbol;
    case Expression::Kind::kSequence:
      return builder_.sequence(parts_of(expression));
    case Expression::Kind::kRepeat:
      return builder_.repeat(symbol_of(expression.children.front()), expression.min, expression.max);
    case Expression::Kind::kChoice:
      break;
  }
  std::vector<SymbolId> choices;
  for (const ExpressionId choice : alternatives_of(id)) choices.push_back(symbol_of(choice));
  return builder_.any_of(choices);
}

// The symbols of a sequence. Neighbours that are regular are one terminal.
std::vector<SymbolId> EbnfRules::parts_of(const Expression& sequence) {
  std::vector<SymbolId> out;
  std::vector<RegexId> run;
  uint32_t parts = 0;
  const auto end_run = [&] {
    if (!run.empty()) out.push_back(builder_.terminal(regexes().sequence(run)));
    run.clear();
    parts = 0;
  };
  for (const ExpressionId child : sequence.children) {
    const std::optional<Regular> regular = regular_of(child);
    if (!regular || parts + regular->parts > kInlinedPartsMax) end_run();
    if (regular) {
      run.push_back(regular->regex);
      parts += regular->parts;
    } else {
      out.push_back(symbol_of(child));
    }
  }
  end_run();
  return out;
}

// The alternatives of a body, those that are regular as one.
std::vector<ExpressionId> EbnfRules::alternatives_of(ExpressionId body) {
  if ((*this)[body].kind != Expression::Kind::kChoice) return {body};
  std::vector<ExpressionId> out;
  std::vector<RegexId> together;
  uint32_t parts = 0;
  const auto end_group = [&] {
    if (together.empty()) return;
    const RegexId all = regexes().any_of(together);
    out.push_back(regex(all));
    regular_.push_back(Regular{all, parts});
    together.clear();
    parts = 0;
  };
  const std::vector<ExpressionId> children = (*this)[body].children;  // a copy: expressions are added below
  for (const ExpressionId child : children) {
    const std::optional<Regular> regular = regular_of(child);
    if (!regular) {
      out.push_back(child);
      continue;
    }
    if (parts + regular->parts > kInlinedPartsMax) end_group();
    together.push_back(regular->regex);
    parts += regular->parts;
  }
  end_group();
  return out;
}

void EbnfRules::add_alternatives(SymbolId symbol, ExpressionId body) {
  for (const ExpressionId alternative : alternatives_of(body)) {
    if (const Expression& expression = (*this)[alternative];
        expression.kind == Expression::Kind::kSequence && !regular_of(alternative)) {
      const Expression sequence = expression;  // a copy: expressions may be added below
      builder_.add(symbol, parts_of(sequence));
    } else {
      const SymbolId only = symbol_of(alternative);
      builder_.add(symbol, {only});
    }
  }
}

Result<SymbolId> EbnfRules::write(RuleId start) {
  if (expressions_.size() > kExpressionsMax)
    return fail(Code::kTooLarge, "the grammar has more than {} expressions", kExpressionsMax);
  decide_rules();
  const SymbolId symbol = symbol_of(start);
  while (!to_define_.empty()) {
    const RuleId id = to_define_.back();
    to_define_.pop_back();
    add_alternatives(*rules_[index(id)].symbol, *rules_[index(id)].body);
  }
  return symbol;
}

}  // namespace cairn::grammar
