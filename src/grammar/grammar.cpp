#include "grammar/grammar.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "grammar/automaton.h"
#include "grammar/grammar_tables.h"

namespace cairn::grammar {
namespace {

constexpr int32_t kAnyFuel = std::numeric_limits<int32_t>::max();  // derivatives: kBuildWorkMax bounds them

uint32_t raw(SymbolId id) { return static_cast<uint32_t>(id); }

struct DraftSymbol {
  SymbolKind kind = SymbolKind::kTerminal;
  RegexId regex = kNoMatch;
  // kRule. kMembers: one, the elements and then the separator. kDistinct: the separator
  std::vector<std::vector<uint32_t>> alternatives{};
  std::vector<MemberList::Element> elements{};  // kMembers
  std::string name{};                           // kRule
  uint32_t inner = 0;                           // kRepeat. kMembers: how many are ordered
  uint32_t min = 0;
  uint32_t max = 0;
  bool defined = false;
  bool productive = false;
  bool nullable = false;
};

}  // namespace

Grammar::Grammar() = default;
Grammar::~Grammar() = default;

struct GrammarBuilder::State {
  RegexPool regexes;
  std::vector<DraftSymbol> symbols;
  std::map<RegexId, SymbolId> terminals;
  std::map<std::vector<uint32_t>, SymbolId> made;  // rules and repetitions made of others, by kind and parts
  size_t size = 0;                                 // symbols, and those of all alternatives

  SymbolId push(DraftSymbol symbol) {
    if (++size > kSymbolsMax && !symbols.empty()) return SymbolId{0};
    symbols.push_back(std::move(symbol));
    return SymbolId{static_cast<uint32_t>(symbols.size() - 1)};
  }

  Result<void> find_productive();
  bool productive(const DraftSymbol& symbol) const;
  bool nullable(const DraftSymbol& symbol) const;
  template <class Test, class Flag>
  void spread(Test test, Flag flag);
  bool completable(const DraftSymbol& symbol) const;
  std::shared_ptr<Grammar> number(uint32_t start);
};

GrammarBuilder::GrammarBuilder() : state_(std::make_unique<State>()) { regexes().bound_searches(kBuildWorkMax); }
GrammarBuilder::~GrammarBuilder() = default;

RegexPool& GrammarBuilder::regexes() { return state_->regexes; }

SymbolId GrammarBuilder::terminal(RegexId regex) {
  const auto found = state_->terminals.find(regex);
  if (found != state_->terminals.end()) return found->second;
  const SymbolId id = state_->push({.kind = SymbolKind::kTerminal, .regex = regex, .defined = true});
  state_->terminals.emplace(regex, id);
  return id;
}

SymbolId GrammarBuilder::rule(std::string name) {
  return state_->push({.kind = SymbolKind::kRule, .name = std::move(name)});
}

void GrammarBuilder::add(SymbolId rule, std::span<const SymbolId> symbols) {
  state_->size += symbols.size() + 1;
  if (state_->size > kSymbolsMax) return;
  std::vector<uint32_t> parts;
  parts.reserve(symbols.size());
  for (SymbolId symbol : symbols) parts.push_back(raw(symbol));
  DraftSymbol& target = state_->symbols[raw(rule)];
  target.alternatives.push_back(std::move(parts));
  target.defined = true;
}

SymbolId GrammarBuilder::sequence(std::span<const SymbolId> symbols) {
  if (symbols.empty()) return terminal(kEmptyText);
  if (symbols.size() == 1) return symbols[0];
  std::vector<uint32_t> key{0};
  for (SymbolId symbol : symbols) key.push_back(raw(symbol));
  const auto [entry, added] = state_->made.try_emplace(std::move(key));
  if (added) {
    entry->second = rule({});
    add(entry->second, symbols);
  }
  return entry->second;
}

SymbolId GrammarBuilder::any_of(std::span<const SymbolId> choices) {
  std::vector<RegexId> terminals;
  std::vector<uint32_t> key;
  for (SymbolId choice : choices) {
    const DraftSymbol& symbol = state_->symbols[raw(choice)];
    if (symbol.kind == SymbolKind::kTerminal) {
      terminals.push_back(symbol.regex);
    } else {
      key.push_back(raw(choice));
    }
  }
  if (!terminals.empty() || key.empty()) key.push_back(raw(terminal(state_->regexes.any_of(terminals))));
  std::ranges::sort(key);
  key.erase(std::ranges::unique(key).begin(), key.end());
  if (key.size() == 1) return SymbolId{key[0]};
  const std::vector<uint32_t> parts = key;
  key.insert(key.begin(), 1);
  const auto [entry, added] = state_->made.try_emplace(std::move(key));
  if (added) {
    entry->second = rule({});
    for (uint32_t part : parts) add(entry->second, {SymbolId{part}});
  }
  return entry->second;
}

SymbolId GrammarBuilder::optional(SymbolId symbol) {
  const SymbolId choices[] = {terminal(kEmptyText), symbol};
  return any_of(choices);
}

SymbolId GrammarBuilder::repeat(SymbolId symbol, uint32_t min, std::optional<uint32_t> max) {
  const DraftSymbol& inner = state_->symbols[raw(symbol)];
  if (inner.kind == SymbolKind::kTerminal) return terminal(state_->regexes.repeat(inner.regex, min, max));
  const uint32_t most = max.value_or(kNoCount);
  if (min > most) return terminal(kNoMatch);
  if (most == 0) return terminal(kEmptyText);
  if (min == 1 && most == 1) return symbol;
  if (min == 0 && most == 1) return optional(symbol);
  const auto [entry, added] = state_->made.try_emplace({2, raw(symbol), min, most});
  if (added) {
    entry->second =
        state_->push({.kind = SymbolKind::kRepeat, .inner = raw(symbol), .min = min, .max = most, .defined = true});
  }
  return entry->second;
}

// What the matcher waits for is a rule.
SymbolId GrammarBuilder::as_rule(SymbolId symbol) {
  if (state_->symbols[raw(symbol)].kind != SymbolKind::kTerminal) return symbol;
  const auto [entry, added] = state_->made.try_emplace({0, raw(symbol)});
  if (added) {
    entry->second = rule({});
    add(entry->second, {symbol});
  }
  return entry->second;
}

SymbolId GrammarBuilder::members(std::span<const SymbolId> elements, std::span<const MemberList::Element> kinds,
                                 uint32_t ordered, SymbolId separator, uint32_t least, std::optional<uint32_t> most) {
  std::vector<uint32_t> parts;
  parts.reserve(elements.size() + 1);
  for (SymbolId element : elements) parts.push_back(raw(as_rule(element)));
  parts.push_back(raw(as_rule(separator)));
  state_->size += parts.size();
  return state_->push({.kind = SymbolKind::kMembers,
                       .alternatives = {std::move(parts)},
                       .elements = {kinds.begin(), kinds.end()},
                       .inner = ordered,
                       .min = least,
                       .max = most.value_or(kNoCount),
                       .defined = true});
}

SymbolId GrammarBuilder::distinct(RegexId text, SymbolId separator, uint32_t min, std::optional<uint32_t> max) {
  return state_->push({.kind = SymbolKind::kDistinct,
                       .regex = text,
                       .alternatives = {{raw(as_rule(separator))}},
                       .min = min,
                       .max = max.value_or(kNoCount),
                       .defined = true});
}

// Sets a flag of symbols that follows from the flags of others, until nothing changes: a queue of symbols whose users
// are looked at again.
template <class Test, class Flag>
void GrammarBuilder::State::spread(Test test, Flag flag) {
  std::vector<std::vector<uint32_t>> users(symbols.size());
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    open.push_back(i);
    if (symbols[i].kind == SymbolKind::kRepeat) users[symbols[i].inner].push_back(i);
    for (const auto& alternative : symbols[i].alternatives) {
      for (uint32_t part : alternative) users[part].push_back(i);
    }
  }
  while (!open.empty()) {
    const uint32_t current = open.back();
    open.pop_back();
    if (symbols[current].*flag || !test(symbols[current])) continue;
    symbols[current].*flag = true;
    for (uint32_t user : users[current]) {
      if (!(symbols[user].*flag)) open.push_back(user);
    }
  }
}

bool GrammarBuilder::State::nullable(const DraftSymbol& symbol) const {
  if (symbol.kind == SymbolKind::kTerminal) return regexes.matches_empty(symbol.regex);
  if (symbol.kind == SymbolKind::kRepeat) return symbol.min == 0 || symbols[symbol.inner].nullable;
  if (symbol.kind == SymbolKind::kMembers || symbol.kind == SymbolKind::kDistinct) return false;
  return std::ranges::any_of(symbol.alternatives, [&](const auto& alternative) {
    return std::ranges::all_of(alternative, [&](uint32_t part) { return symbols[part].nullable; });
  });
}

bool GrammarBuilder::State::productive(const DraftSymbol& symbol) const {
  if (symbol.kind == SymbolKind::kTerminal) return symbol.productive;
  if (symbol.kind == SymbolKind::kRepeat) return symbol.min == 0 || symbols[symbol.inner].productive;
  if (symbol.kind == SymbolKind::kMembers) return completable(symbol);
  return std::ranges::any_of(symbol.alternatives, [&](const auto& alternative) {
    return std::ranges::all_of(alternative, [&](uint32_t part) { return symbols[part].productive; });
  });
}

bool GrammarBuilder::State::completable(const DraftSymbol& list) const {
  uint32_t possible = 0;
  uint32_t required = 0;
  for (size_t i = 0; i < list.elements.size(); ++i) {
    const bool productive = symbols[list.alternatives[0][i]].productive;
    if (list.elements[i].required && !productive) return false;
    required += list.elements[i].required;
    possible += productive;
  }
  return possible > 0 && possible >= list.min && list.min <= list.max && std::max(required, 1U) <= list.max;
}

Result<void> GrammarBuilder::State::find_productive() {
  std::vector<bool> matches(symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i].kind != SymbolKind::kTerminal && symbols[i].kind != SymbolKind::kDistinct) continue;
    const std::optional<bool> nothing = regexes.matches_nothing(symbols[i].regex, kAnyFuel);
    if (!nothing.has_value() || regexes.full()) return fail(Code::kTooLarge, "{}", regexes.excess());
    matches[i] = !*nothing;
  }
  spread(
      [&](const DraftSymbol& symbol) {
        if (symbol.kind != SymbolKind::kTerminal && symbol.kind != SymbolKind::kDistinct) return productive(symbol);
        return static_cast<bool>(matches[static_cast<size_t>(&symbol - symbols.data())]);
      },
      &DraftSymbol::productive);
  return {};
}

// Gives numbers to what the start symbol reaches, and leaves out alternatives that match nothing.
std::shared_ptr<Grammar> GrammarBuilder::State::number(uint32_t start) {
  auto grammar = std::make_shared<Grammar>();
  std::vector<uint32_t> numbers(symbols.size(), kEnd);
  std::vector<uint32_t> order;
  const auto number_of = [&](uint32_t symbol) {
    if (numbers[symbol] == kEnd) {
      numbers[symbol] = static_cast<uint32_t>(order.size());
      order.push_back(symbol);
    }
    return numbers[symbol];
  };
  const auto empty = [&](uint32_t part) {  // matches only the empty text
    const DraftSymbol& symbol = symbols[part];
    return (symbol.kind == SymbolKind::kTerminal && symbol.regex == kEmptyText) ||
           (symbol.kind == SymbolKind::kRepeat && !symbols[symbol.inner].productive);
  };
  const auto add_alternative = [&](uint32_t rule, std::span<const uint32_t> parts) {
    grammar->starts.push_back(static_cast<uint32_t>(grammar->positions.size()));
    for (uint32_t part : parts) {
      if (!empty(part)) grammar->positions.push_back({.symbol = number_of(part), .rule = rule});
    }
    if (grammar->positions.size() > grammar->starts.back()) grammar->positions.back().last = true;
    grammar->positions.push_back({.symbol = kEnd, .rule = rule});
  };
  const auto add_list = [&](uint32_t rule, const DraftSymbol& list, Symbol& symbol) {
    std::vector<MemberList::Element> elements;
    uint32_t ordered = 0;
    for (size_t i = 0; i < list.elements.size(); ++i) {
      const uint32_t element = list.alternatives[0][i];
      if (!symbols[element].productive) continue;
      ordered += i < list.inner;
      elements.push_back(list.elements[i]);
      grammar->positions.push_back({.symbol = number_of(element), .rule = rule, .role = Position::Role::kElement});
    }
    const uint32_t separator = number_of(list.alternatives[0].back());
    grammar->positions.push_back({.symbol = separator, .rule = rule, .role = Position::Role::kSeparator});
    symbol.count = static_cast<uint32_t>(elements.size());
    symbol.inner = static_cast<uint32_t>(grammar->lists.size());
    grammar->lists.emplace_back(std::move(elements), ordered, list.min, list.max);
  };
  number_of(start);
  for (uint32_t i = 0; i < order.size(); ++i) {
    const DraftSymbol& draft = symbols[order[i]];
    Symbol symbol{.kind = draft.kind, .nullable = draft.nullable, .regex = draft.regex};
    if (draft.kind == SymbolKind::kRepeat) {
      symbol.first = static_cast<uint32_t>(grammar->positions.size());
      symbol.inner = number_of(draft.inner);
      symbol.min = symbols[draft.inner].nullable ? 0 : draft.min;
      symbol.max = draft.max;
      grammar->positions.push_back({.symbol = symbol.inner, .rule = i, .role = Position::Role::kRepeat});
    } else if (draft.kind == SymbolKind::kDistinct) {
      symbol.first = static_cast<uint32_t>(grammar->positions.size());
      symbol.min = draft.min;
      symbol.max = draft.max;
      const uint32_t separator = number_of(draft.alternatives[0][0]);
      grammar->positions.push_back({.rule = i, .role = Position::Role::kText});
      grammar->positions.push_back({.symbol = separator, .rule = i, .role = Position::Role::kTextSeparator});
    } else if (draft.kind == SymbolKind::kMembers) {
      symbol.first = static_cast<uint32_t>(grammar->positions.size());
      add_list(i, draft, symbol);
    } else if (draft.kind == SymbolKind::kRule) {
      symbol.first = static_cast<uint32_t>(grammar->starts.size());
      for (const auto& alternative : draft.alternatives) {
        if (std::ranges::all_of(alternative, [&](uint32_t part) { return symbols[part].productive; })) {
          add_alternative(i, alternative);
        }
      }
      symbol.count = static_cast<uint32_t>(grammar->starts.size()) - symbol.first;
    }
    grammar->symbols.push_back(symbol);
  }
  grammar->accept = static_cast<uint32_t>(grammar->symbols.size());
  const auto first = static_cast<uint32_t>(grammar->starts.size());
  const uint32_t whole[] = {start};
  add_alternative(grammar->accept, whole);
  grammar->symbols.push_back(
      {.kind = SymbolKind::kRule, .nullable = symbols[start].nullable, .first = first, .count = 1});
  return grammar;
}

Result<std::optional<size_t>> GrammarBuilder::first_without_text(std::span<const SymbolId> among) {
  CAIRN_TRY_VOID(state_->find_productive());
  for (size_t i = 0; i < among.size(); ++i) {
    if (!state_->symbols[raw(among[i])].productive) return i;
  }
  return std::nullopt;
}

Result<std::shared_ptr<const Grammar>> GrammarBuilder::finish(SymbolId start) {
  State& state = *state_;
  if (state.size > kSymbolsMax) return fail(Code::kTooLarge, "a grammar of more than {} symbols", kSymbolsMax);
  if (state.regexes.full()) {
    return fail(Code::kTooLarge, "{}", state.regexes.excess());
  }
  for (const DraftSymbol& symbol : state.symbols) {
    if (!symbol.defined) return fail(Code::kInvalidArgument, "the rule {} has no definition", symbol.name);
  }
  CAIRN_TRY_VOID(state.find_productive());
  if (!state.symbols[raw(start)].productive) {
    return fail(Code::kInvalidArgument, "no text is in the grammar's language");
  }
  state.spread([&](const DraftSymbol& symbol) { return state.nullable(symbol); }, &DraftSymbol::nullable);
  std::shared_ptr<Grammar> grammar = state.number(raw(start));
  grammar->regexes = std::move(state.regexes);
  std::vector<RegexId> needed;
  for (const Symbol& symbol : grammar->symbols) needed.push_back(symbol.regex);
  const std::vector<RegexId> names = grammar->regexes.keep_only(needed);
  for (Symbol& symbol : grammar->symbols) symbol.regex = names[static_cast<size_t>(symbol.regex)];
  state.regexes = RegexPool();
  state = State();
  return grammar;
}

}  // namespace cairn::grammar
