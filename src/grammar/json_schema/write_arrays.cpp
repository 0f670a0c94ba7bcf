// Rules for arrays.
#include <algorithm>
#include <bit>
#include <initializer_list>
#include <limits>
#include <utility>

#include "grammar/json_schema/writer.h"

namespace cairn::grammar {

namespace {

std::optional<uint32_t> repeats(std::optional<uint64_t> max, uint64_t used) {
  if (!max.has_value()) return std::nullopt;
  return static_cast<uint32_t>(std::min<uint64_t>(*max - used, std::numeric_limits<int32_t>::max()));
}

}  // namespace

/// `items`: at least one.
void GrammarWriter::add_brackets(SymbolId rule, SymbolId items, bool maybe_empty) {
  RegexPool& pool = text_.pool();
  if (maybe_empty) {
    builder_.add(rule, {builder_.terminal(text_.then(pool.literal("["), text_.then(space_, pool.literal("]"))))});
  }
  builder_.add(rule, {builder_.terminal(text_.then(pool.literal("["), space_)), items,
                      builder_.terminal(text_.then(space_, pool.literal("]")))});
}

void GrammarWriter::add_array(SymbolId rule, GoalId goal, const ArrayForm& given) {
  if (normalizer_.error().has_value()) return;
  ArrayForm array = given;
  if (array.max.has_value() && *array.max <= 1) array.unique = false;
  if (array.max.has_value() && array.prefix.size() > *array.max) array.prefix.resize(*array.max);
  if (array.unique) {
    if (!array.contains.empty() || !add_unique_array(rule, goal, array)) {
      fail(goal, Code::kUnsupported, "uniqueItems",
           "items that are not from a list of at most " + std::to_string(kUniqueValuesMax) +
               " values cannot be kept apart");
    }
  } else if (array.contains.empty()) {
    add_plain_array(rule, array);
  } else {
    add_counted_array(rule, goal, array);
  }
}

/// An item as a rule of its own, which begins behind the comma: see write_objects.cpp.
SymbolId GrammarWriter::item(GoalId goal) {
  const SymbolId self = rule("item");
  builder_.add(self, {symbol(goal)});
  return self;
}

void GrammarWriter::add_plain_array(SymbolId rule, const ArrayForm& array) {
  const uint64_t prefix = array.prefix.size();
  const bool more = !array.max.has_value() || *array.max > prefix;
  const SymbolId rest = more ? item(array.rest) : nothing();
  const SymbolId next[] = {comma_, rest};
  const SymbolId one_more = builder_.sequence(next);
  const auto count = [&](uint64_t used) { return static_cast<uint32_t>(array.min > used ? array.min - used : 0); };
  if (prefix == 0) {
    if (!more) {
      add_brackets(rule, nothing(), array.min == 0);
      return;
    }
    const SymbolId all[] = {rest, builder_.repeat(one_more, count(1), repeats(array.max, 1))};
    add_brackets(rule, builder_.sequence(all), array.min == 0);
    return;
  }
  SymbolId later = more ? builder_.repeat(one_more, count(prefix), repeats(array.max, prefix))
                        : (array.min > prefix ? nothing() : empty_);
  for (uint64_t i = prefix; i-- > 0;) {  // from the item at i on
    const SymbolId from_here = this->rule("items");
    builder_.add(from_here, {symbol(array.prefix[i]), later});
    later = i == 0 ? from_here : after(from_here, array.min <= i);
  }
  add_brackets(rule, later, array.min == 0);
}

void GrammarWriter::add_counted_array(SymbolId rule, GoalId goal, const ArrayForm& array) {
  // A state: how many items there have been, and how many of them each `contains` has counted; each no further than it
  // matters.
  uint64_t positions = std::max<uint64_t>({array.prefix.size(), array.max.value_or(array.min), 1});
  std::vector<uint64_t> caps;
  uint64_t states = 1;
  for (const Contains& contains : array.contains) {
    positions = std::max(positions, contains.from);
    caps.push_back(std::max(contains.min, contains.max.value_or(0)));
  }
  for (const uint64_t cap : caps) states = std::min(states * (cap + 1), kStatesMax + 1);
  states = std::min(states * std::min(positions + 1, kStatesMax), kStatesMax + 1);
  if (states > kStatesMax || array.contains.size() > 3) {
    fail(goal, Code::kTooLarge, "contains",
         "counting these items takes more than " + std::to_string(kStatesMax) + " states or 3 conditions");
    return;
  }
  using State = std::vector<uint64_t>;  // items, counts
  std::map<State, SymbolId> rules;
  std::vector<State> open;
  const auto rule_of = [&](const State& state) {
    const auto [place, added] = rules.emplace(state, SymbolId{});
    if (added) {
      place->second = this->rule("items");
      open.push_back(state);
    }
    return place->second;
  };
  const State first(array.contains.size() + 1, 0);
  const SymbolId start = rule_of(first);
  bool maybe_empty = false;
  while (!open.empty() && !normalizer_.error().has_value()) {
    const State state = open.back();
    open.pop_back();
    const SymbolId self = rules.at(state);
    const SymbolId begin = state == first ? self : this->rule("items");
    bool complete = state[0] >= array.min;
    for (size_t i = 0; i < caps.size(); ++i) complete &= state[i + 1] >= array.contains[i].min;
    if (complete && state == first) maybe_empty = true;
    if (state != first) builder_.add(self, {comma_, begin});
    if (complete && state != first) builder_.add(self, {});
    builder_.add(begin, {nothing()});
    if (array.max.has_value() && state[0] >= *array.max) continue;
    for (size_t set = 0; set < size_t{1} << caps.size(); ++set) {
      GoalId item = state[0] < array.prefix.size() ? array.prefix[state[0]] : array.rest;
      State next = state;
      next[0] = std::min(state[0] + 1, positions);
      bool possible = true;
      std::vector<std::vector<GoalId>> outside;
      for (size_t i = 0; i < caps.size() && possible; ++i) {
        const Contains& contains = array.contains[i];
        const bool counted = (set >> i & 1) != 0, here = state[0] >= contains.from;
        if (counted) {
          possible = here && !(contains.max.has_value() && state[i + 1] >= *contains.max);
          // Without a maximum nothing is to be counted beyond the minimum.
          if (!contains.max.has_value() && state[i + 1] >= contains.min) possible = false;
          item = normalizer_.both(item, contains.goal);
          next[i + 1] = std::min(state[i + 1] + 1, caps[i]);
        } else if (here && contains.max.has_value()) {
          outside.push_back(normalizer_.negations(contains.goal));
        }
      }
      if (!possible) continue;
      std::vector<GoalId> items{item};
      for (const std::vector<GoalId>& goals : outside) {
        std::vector<GoalId> more;
        for (const GoalId one : items) {
          for (const GoalId other : goals) more.push_back(normalizer_.both(one, other));
        }
        items = std::move(more);
      }
      for (const GoalId one : items) {
        if (normalizer_.empty(one)) continue;
        builder_.add(begin, {symbol(one), rule_of(next)});
      }
    }
  }
  add_brackets(rule, start, maybe_empty);
}

/// The texts of all values that fit a goal, if they are few scalars.
bool GrammarWriter::value_texts(GoalId goal, std::vector<std::string>& out) {
  const NormalForm& form = normalizer_.form(goal);
  if (!form.arrays.empty() || !form.objects.empty()) return false;
  if (form.null) out.push_back(text_.notation().null[0]);
  if (form.no) out.push_back(text_.notation().no[0]);
  if (form.yes) out.push_back(text_.notation().yes[0]);
  if (form.number.text != kNoMatch) {
    if (!form.number.values.has_value()) return false;
    out.insert(out.end(), form.number.values->begin(), form.number.values->end());
  }
  if (form.string.text != kNoMatch) {
    if (!form.string.values.has_value()) return false;
    for (const std::string& value : *form.string.values) out.push_back(text_.spell(value));
  }
  return true;
}

bool GrammarWriter::add_unique_array(SymbolId rule, GoalId goal, const ArrayForm& array) {
  std::vector<std::string> values;
  if (array.max.has_value() && *array.max <= array.prefix.size() && array.prefix.empty()) return false;
  if (!array.prefix.empty() || !value_texts(array.rest, values)) return false;
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  if (values.size() > kUniqueValuesMax) return false;
  if (array.min > values.size()) return true;
  static_cast<void>(goal);
  std::vector<SymbolId> symbols;
  for (const std::string& value : values) symbols.push_back(builder_.literal(value));
  const size_t sets = size_t{1} << values.size();
  std::vector<SymbolId> rules(sets), after_set(sets);
  for (size_t set = sets; set-- > 0;) {  // at least one more, when these have been
    const auto used = static_cast<uint64_t>(std::popcount(set));
    rules[set] = this->rule("items");
    builder_.add(rules[set], {nothing()});
    if (array.max.has_value() && used >= *array.max) continue;
    for (size_t i = 0; i < values.size(); ++i) {
      if ((set >> i & 1) == 0) builder_.add(rules[set], {symbols[i], after_set[set | size_t{1} << i]});
    }
    if (set != 0) after_set[set] = after(rules[set], used >= array.min);
  }
  add_brackets(rule, rules[0], array.min == 0);
  return true;
}

}  // namespace cairn::grammar
