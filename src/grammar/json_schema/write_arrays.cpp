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
  builder_.add(rule, {builder_.literal("["), items, builder_.terminal(text_.then(space_, pool.literal("]")))});
}

void GrammarWriter::add_array(SymbolId rule, GoalId goal, const ArrayForm& given) {
  if (normalizer_.error().has_value()) return;
  ArrayForm array = given;
  if (array.max.has_value() && *array.max <= 1) array.unique = false;
  if (array.max.has_value() && array.prefix.size() > *array.max) array.prefix.resize(*array.max);
  if (array.unique) {
    if (!array.contains.empty() || !add_unique_array(rule, goal, array)) {
      fail(goal, Code::kUnsupported, "uniqueItems",
           "only strings, numbers, booleans and null can be kept apart, where prefixItems and contains do not count");
    }
  } else if (array.contains.empty()) {
    add_plain_array(rule, array);
  } else {
    add_counted_array(rule, goal, array);
  }
}

/// An item and the white space before it, as a rule of its own, which begins behind the comma: see write_objects.cpp.
SymbolId GrammarWriter::item(GoalId goal) {
  const auto [place, added] = items_.try_emplace(goal);
  if (!added) return place->second;
  const SymbolId self = rule("item");
  place->second = self;
  builder_.add(self, {builder_.terminal(space_), symbol(goal)});
  return self;
}

/// What may follow when something was written: the end, or a comma and more.
SymbolId GrammarWriter::after(SymbolId more, bool may_end) {
  const SymbolId self = rule("more items");
  builder_.add(self, {comma_, more});
  if (may_end) builder_.add(self, {});
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
    builder_.add(from_here, {item(array.prefix[i]), later});
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
      GoalId next_item = state[0] < array.prefix.size() ? array.prefix[state[0]] : array.rest;
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
          next_item = normalizer_.both(next_item, contains.goal);
          next[i + 1] = std::min(state[i + 1] + 1, caps[i]);
        } else if (here && contains.max.has_value()) {
          outside.push_back(normalizer_.negations(contains.goal));
        }
      }
      if (!possible) continue;
      std::vector<GoalId> items{next_item};
      for (const std::vector<GoalId>& goals : outside) {
        std::vector<GoalId> more;
        for (const GoalId one : items) {
          for (const GoalId other : goals) more.push_back(normalizer_.both(one, other));
        }
        items = std::move(more);
      }
      for (const GoalId one : items) {
        if (normalizer_.empty(one)) continue;
        builder_.add(begin, {item(one), rule_of(next)});
      }
    }
  }
  add_brackets(rule, start, maybe_empty);
}

/// One text for each value that fits a goal, if all are scalars.
std::optional<RegexId> GrammarWriter::unique_texts(GoalId goal) {
  const NormalForm& form = normalizer_.form(goal);
  if (!form.arrays.empty() || !form.objects.empty()) return std::nullopt;
  RegexPool& pool = text_.pool();
  NormalForm listed = form;  // scalars() writes listed values and all but numbers and strings in one way
  listed.number = form.number.values.has_value() ? form.number : TextSet{};
  listed.string = form.string.values.has_value() ? form.string : TextSet{};
  std::vector<RegexId> choices;
  if (!form.number.values.has_value()) {
    choices.push_back(text_.both(form.number.text, normalizer_.numbers().shortest()));
  } else {
    listed.number.whole = true;
  }
  if (!form.string.values.has_value()) {
    const RegexId spelled = text_.spelled_string();
    const bool all = form.string.text == text_.any_string();
    choices.push_back(text_.quoted(all ? spelled : text_.both(form.string.text, spelled)));
  }
  choices.push_back(scalars(listed));
  return pool.any_of(choices);
}

bool GrammarWriter::add_unique_array(SymbolId rule, GoalId goal, const ArrayForm& array) {
  if (!array.prefix.empty()) return false;
  const std::optional<RegexId> texts = unique_texts(array.rest);
  if (!texts.has_value()) return false;
  const auto least = static_cast<uint32_t>(std::min<uint64_t>(array.min, std::numeric_limits<int32_t>::max()));
  if (least > 1) {
    const std::optional<bool> enough = text_.pool().matches_many(*texts, least, kUniqueFuel);
    if (!enough.has_value()) {
      fail(goal, Code::kTooLarge, "uniqueItems",
           "to see that there are so many unique items takes more than " + std::to_string(kUniqueFuel) + " steps");
    }
    if (enough != true) return true;
  }
  if (array.min == 0 && text_.none(*texts)) {
    add_brackets(rule, nothing(), true);
    return true;
  }
  const SymbolId separator = builder_.terminal(text_.then(space_, text_.then(text_.pool().literal(","), space_)));
  const SymbolId items[] = {builder_.terminal(space_),
                            builder_.distinct(*texts, separator, least, repeats(array.max, 0))};
  add_brackets(rule, builder_.sequence(items), array.min == 0);
  return true;
}

}  // namespace cairn::grammar
