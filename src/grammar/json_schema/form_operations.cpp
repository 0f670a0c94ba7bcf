// Intersection, union and complement of normal forms.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "grammar/json_schema/normalizer.h"

namespace cairn::grammar {

namespace {

std::optional<uint64_t> smaller(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  if (!a.has_value()) return b;
  return b.has_value() ? std::min(*a, *b) : a;
}

template <class T>
void append_new(std::vector<T>& to, const std::vector<T>& from) {
  for (const T& value : from) {
    if (std::ranges::find(to, value) == to.end()) to.push_back(value);
  }
}

template <class T>
bool holds_all(const std::vector<T>& set, const std::vector<T>& of) {
  return std::ranges::all_of(of, [&](const T& value) { return std::ranges::find(set, value) != set.end(); });
}

/// False: one side needs the member and the other forbids it.
bool merge(Member& to, const Member& from) {
  using enum Member::Presence;
  to.declared |= from.declared;
  to.named |= from.named;
  if (to.presence == kOptional) to.presence = from.presence;
  return from.presence == kOptional || from.presence == to.presence;
}

}  // namespace

bool Normalizer::stronger(GoalId a, GoalId b) const {
  if (a == b || b == kAnyValue || a == kNoValue) return true;
  return std::ranges::includes(goals_[static_cast<size_t>(a)].literals, goals_[static_cast<size_t>(b)].literals);
}

/// Whether it is plain to see that nothing fits both: objects by a member that one of them needs.
bool Normalizer::apart(const NormalForm& a, const NormalForm& b) {
  if ((a.null && b.null) || (a.no && b.no) || (a.yes && b.yes)) return false;
  if (!a.arrays.empty() && !b.arrays.empty()) return false;
  if (a.number.text != kNoMatch && b.number.text != kNoMatch) return false;
  if (a.string.text != kNoMatch && b.string.text != kNoMatch) return false;
  return std::ranges::all_of(a.objects, [&](const ObjectForm& one) {
    return std::ranges::all_of(b.objects, [&](const ObjectForm& other) { return apart(one, other); });
  });
}

bool Normalizer::apart(const ObjectForm& a, const ObjectForm& b) {
  using enum Member::Presence;
  const auto needs_other = [&](const ObjectForm& x, const ObjectForm& y) {
    return std::ranges::any_of(x.members, [&](const Member& member) {
      if (member.presence != kRequired) return false;
      const auto known = std::ranges::find(y.members, member.name, &Member::name);
      if (!spend(known - y.members.begin())) return true;
      return known != y.members.end() && (known->presence == kAbsent || empty(both(member.goal, known->goal)));
    });
  };
  return needs_other(a, b) || needs_other(b, a);
}

/// Whether it is plain to see that all that `a` allows is allowed by `b`.
bool Normalizer::within(const ObjectForm& a, const ObjectForm& b) {
  using enum Member::Presence;
  if (!spend(static_cast<int64_t>(b.rules.size() * a.rules.size() + b.witnesses.size() * a.witnesses.size())))
    return false;
  if (a.min < b.min || (b.max.has_value() && (!a.max.has_value() || *a.max > *b.max))) return false;
  if (!holds_all(a.witnesses, b.witnesses)) return false;
  const auto rule = [&](const KeyRule& one) {
    return std::ranges::any_of(
        a.rules, [&](const KeyRule& other) { return other.keys == one.keys && stronger(other.goal, one.goal); });
  };
  if (!std::ranges::all_of(b.rules, rule)) return false;
  for (const Member& member : b.members) {
    if (member.presence == kOptional && member.goal == kAnyValue) continue;
    const auto known = std::ranges::find(a.members, member.name, &Member::name);
    if (!spend(known - a.members.begin()) || known == a.members.end()) return false;
    if (known->presence == kAbsent && member.presence != kRequired) continue;
    if (member.presence != kOptional && known->presence != member.presence) return false;
    if (!stronger(known->goal, member.goal)) return false;
  }
  return a.evaluated_all == b.evaluated_all && a.evaluated_keys == b.evaluated_keys &&
         a.evaluated_names == b.evaluated_names;
}

bool Normalizer::within(const ArrayForm& a, const ArrayForm& b) {
  if (!spend(std::ssize(a.prefix) + std::ssize(b.prefix) + std::ssize(a.contains) * std::ssize(b.contains)))
    return false;
  if (a.min < b.min || (b.max.has_value() && (!a.max.has_value() || *a.max > *b.max))) return false;
  if ((b.unique && !a.unique) || !holds_all(a.contains, b.contains) || !stronger(a.rest, b.rest)) return false;
  for (size_t i = 0; i < std::max(a.prefix.size(), b.prefix.size()); ++i) {
    if (!stronger(i < a.prefix.size() ? a.prefix[i] : a.rest, i < b.prefix.size() ? b.prefix[i] : b.rest)) return false;
  }
  return a.evaluated_all == b.evaluated_all && a.evaluated_prefix == b.evaluated_prefix &&
         a.evaluated_contains == b.evaluated_contains;
}

bool Normalizer::spend(int64_t parts) {
  work_ += 1 + parts;
  if (work_ > kWorkMax) {
    fail(Code::kTooLarge, current_place_, "",
         "the schema's alternatives take more than " + std::to_string(kWorkMax) + " steps to combine");
  }
  return !error_.has_value();
}

NormalForm Normalizer::any_form() const {
  NormalForm form;
  form.null = form.no = form.yes = true;
  form.number.text = numbers_.any();
  form.string.text = text_.any_string();
  form.arrays.emplace_back();
  form.objects.emplace_back();
  return form;
}

TextSet Normalizer::intersect(const TextSet& a, const TextSet& b, bool numbers) {
  TextSet out;
  if (a.exact && b.exact && a.values.has_value() && b.values.has_value()) {  // mostly branches with other values each
    const std::unordered_set<std::string_view> of_b(b.values->begin(), b.values->end());
    const auto common = [&](const std::string& value) { return of_b.contains(value); };
    if (std::ranges::none_of(*a.values, common)) return out;
  }
  const RegexId all = numbers ? numbers_.any() : text_.any_string();
  if (a.text == b.text || b.text == all) {
    out.text = a.text;
    out.multiples = a.multiples;
  } else if (a.text == all) {
    out.text = b.text;
    out.multiples = b.multiples;
  } else if (a.multiples || b.multiples) {
    out.text = common_multiples(a, b, out);
  } else {
    out.text = text_.both(a.text, b.text);
  }
  out.every_spelling = a.every_spelling && b.every_spelling;
  out.exact = a.exact && b.exact;
  out.whole = a.whole || b.whole;
  const TextSet& listed = a.values.has_value() ? a : b;
  if (listed.values.has_value() && out.text == listed.text) {
    out.values = listed.values;
  } else if (listed.values.has_value()) {
    out.values.emplace();
    for (const std::string& value : *listed.values) {
      const bool fits = numbers ? text_.matches(out.text, value) : key_matches(out.text, value);
      if (fits) out.values->push_back(value);
    }
    if (out.values->empty()) return {};
  }
  return out.text == kNoMatch ? TextSet{} : out;
}

// Two divisors become their common multiple: to look for texts that two automata take is a search through the product
// of their states.
RegexId Normalizer::common_multiples(const TextSet& a, const TextSet& b, TextSet& out) {
  if (!a.multiples || !b.multiples) {
    const TextSet::Multiples& known = a.multiples ? *a.multiples : *b.multiples;
    out.multiples = {known.divisor, text_.both(known.numbers, a.multiples ? b.text : a.text)};
    return text_.both(a.text, b.text);
  }
  const std::optional<Decimal> divisor = common_multiple(a.multiples->divisor, b.multiples->divisor);
  const RegexId numbers = text_.both(a.multiples->numbers, b.multiples->numbers);
  if (divisor) {
    if (const Result<RegexId> multiples = numbers_.multiple_of(*divisor)) {
      out.multiples = {*divisor, numbers};
      return text_.both(numbers, *multiples);
    }
  }
  fail(Code::kTooLarge, current_place_, "",
       fmt::format("the common multiple of {} and {} is too large; it may be up to {} in its last place",
                   a.multiples->divisor.text(), b.multiples->divisor.text(), kDivisorMax));
  return kNoMatch;
}

TextSet Normalizer::unite(std::span<const TextSet* const> sets) {
  TextSet out;
  std::vector<RegexId> texts;
  std::unordered_set<std::string_view> seen;
  bool listed = true;
  std::vector<std::string> values;
  for (const TextSet* set : sets) {
    if (set->text == kNoMatch) continue;
    const bool first = texts.empty();
    texts.push_back(set->text);
    out.every_spelling = out.every_spelling && set->every_spelling;
    out.exact = out.exact && set->exact;
    out.whole = (first || out.whole) && set->whole;
    listed = listed && set->values.has_value();
    if (!listed) continue;
    for (const std::string& value : *set->values) {
      if (seen.insert(value).second) values.push_back(value);
    }
  }
  if (texts.empty()) return out;
  out.text = text_.pool().any_of(texts);
  if (listed) out.values = std::move(values);
  return out;
}

TextSet Normalizer::complement(const TextSet& set, bool numbers) {
  if (!set.exact) {
    fail(Code::kUnsupported, current_place_, "not",
         "the complement of this schema cannot be held to, because of a format or a number in it");
  }
  const RegexId all = set.every_spelling ? (numbers ? numbers_.any() : text_.any_string())
                                         : (numbers ? numbers_.plain() : text_.canonical_string());
  TextSet out;
  if (set.text == all) return out;
  out.text = text_.except(all, set.text);
  out.every_spelling = set.every_spelling;
  return out;
}

std::optional<ArrayForm> Normalizer::intersect(const ArrayForm& a, const ArrayForm& b) {
  if (!spend(std::ssize(a.prefix) + std::ssize(b.prefix))) return std::nullopt;
  ArrayForm out = a;
  const size_t size = std::max(a.prefix.size(), b.prefix.size());
  out.prefix.resize(size, a.rest);
  for (size_t i = 0; i < size; ++i) out.prefix[i] = both(out.prefix[i], i < b.prefix.size() ? b.prefix[i] : b.rest);
  out.rest = both(a.rest, b.rest);
  out.min = std::max(a.min, b.min);
  out.max = smaller(a.max, b.max);
  out.unique |= b.unique;
  append_new(out.contains, b.contains);
  out.evaluated_prefix = std::max(a.evaluated_prefix, b.evaluated_prefix);
  out.evaluated_all |= b.evaluated_all;
  append_new(out.evaluated_contains, b.evaluated_contains);
  // An item that nothing fits ends the array before it.
  for (size_t i = 0; i < out.prefix.size(); ++i) {
    if (out.prefix[i] == kNoValue) out.max = smaller(out.max, i);
  }
  if (out.rest == kNoValue) out.max = smaller(out.max, out.prefix.size());
  if (out.max.has_value() && out.min > *out.max) return std::nullopt;
  return out;
}

std::optional<ObjectForm> Normalizer::intersect(const ObjectForm& a, const ObjectForm& b) {
  if (!spend(std::ssize(a.members) + std::ssize(b.members))) return std::nullopt;
  ObjectForm out;
  out.members.reserve(a.members.size() + b.members.size());
  std::map<std::string_view, size_t> places;
  const auto add = [&](const Member& member) {
    const auto [place, added] = places.emplace(member.name, out.members.size());
    if (added) {
      out.members.push_back(member);
      return true;
    }
    Member& known = out.members[place->second];
    known.goal = both(known.goal, member.goal);
    return merge(known, member);
  };
  for (const bool declared : {true, false}) {
    for (const ObjectForm* side : {&a, &b}) {
      for (const Member& member : side->members) {
        if (member.declared == declared && !add(member)) return std::nullopt;
      }
    }
  }
  for (const Member& member : out.members) {
    if (member.presence == Member::Presence::kRequired && member.goal == kNoValue) return std::nullopt;
  }
  out.rules = a.rules;
  for (const KeyRule& rule : b.rules) {
    const auto same = std::ranges::find(out.rules, rule.keys, &KeyRule::keys);
    if (same == out.rules.end()) {
      out.rules.push_back(rule);
    } else {
      same->goal = both(same->goal, rule.goal);
    }
  }
  out.witnesses = a.witnesses;
  append_new(out.witnesses, b.witnesses);
  out.min = std::max(a.min, b.min);
  out.max = smaller(a.max, b.max);
  if (out.max.has_value() && out.min > *out.max) return std::nullopt;
  out.evaluated_names = a.evaluated_names;
  append_new(out.evaluated_names, b.evaluated_names);
  out.evaluated_keys = a.evaluated_keys;
  append_new(out.evaluated_keys, b.evaluated_keys);
  out.evaluated_all = a.evaluated_all || b.evaluated_all;
  return out;
}

NormalForm Normalizer::intersect(const NormalForm& a, const NormalForm& b) {
  NormalForm out;
  out.null = a.null && b.null;
  out.no = a.no && b.no;
  out.yes = a.yes && b.yes;
  out.number = intersect(a.number, b.number, true);
  out.string = intersect(a.string, b.string, false);
  const auto product = [&]<class Form>(const std::vector<Form>& x, const std::vector<Form>& y, std::vector<Form>& z) {
    static const Form kAny{};
    if (x.size() == 1 && x[0] == kAny) {
      z = y;
      return;
    }
    if (y.size() == 1 && y[0] == kAny) {
      z = x;
      return;
    }
    const bool many = x.size() > 1 && y.size() > 1;
    for (const Form& one : x) {
      for (const Form& other : y) {
        if (error_.has_value()) return;
        std::optional<Form> both = intersect(one, other);
        if (!both.has_value() || (many && empty(*both, kEmptinessDepthMax - 4))) continue;
        if (many) {
          if (std::ranges::any_of(z, [&](const Form& known) { return within(*both, known); })) continue;
          std::erase_if(z, [&](const Form& known) { return within(known, *both); });
        }
        z.push_back(std::move(*both));
        if (z.size() > kAlternativesMax) {
          fail(Code::kTooLarge, current_place_, "",
               "more than " + std::to_string(kAlternativesMax) + " alternatives for one value; use fewer branches");
        }
      }
    }
  };
  product(a.arrays, b.arrays, out.arrays);
  product(a.objects, b.objects, out.objects);
  return out;
}

void Normalizer::unite(NormalForm& form, const NormalForm& other) {
  const NormalForm* both[] = {&form, &other};
  form = unite(both);
}

NormalForm Normalizer::unite(std::span<const NormalForm* const> forms) {
  NormalForm out;
  std::vector<const TextSet*> numbers, strings;
  for (const NormalForm* form : forms) {
    out.null |= form->null;
    out.no |= form->no;
    out.yes |= form->yes;
    numbers.push_back(&form->number);
    strings.push_back(&form->string);
    append_new(out.arrays, form->arrays);
    append_new(out.objects, form->objects);
    if (out.arrays.size() <= kAlternativesMax && out.objects.size() <= kAlternativesMax) continue;
    fail(Code::kTooLarge, current_place_, "",
         "more than " + std::to_string(kAlternativesMax) + " alternatives for one value; use fewer branches");
    return out;
  }
  out.number = unite(numbers);
  out.string = unite(strings);
  return out;
}

std::vector<ObjectForm> Normalizer::negations(const ObjectForm& object) {
  using enum Member::Presence;
  std::vector<ObjectForm> out;
  const auto with_member = [&](const std::string& name, GoalId goal, Member::Presence presence) {
    ObjectForm one;
    one.members.push_back({name, goal, presence, false});
    out.push_back(std::move(one));
  };
  for (const Member& member : object.members) {
    if (member.presence == kRequired) with_member(member.name, kAnyValue, kAbsent);
    if (member.presence == kAbsent) {
      with_member(member.name, kAnyValue, kRequired);
      continue;
    }
    for (const GoalId goal : negations(member.goal)) with_member(member.name, goal, kRequired);
  }
  for (const KeyRule& rule : object.rules) {
    for (const GoalId goal : negations(rule.goal)) {
      ObjectForm one;
      one.witnesses.push_back({rule.keys, goal});
      out.push_back(std::move(one));
    }
  }
  for (const KeyRule& witness : object.witnesses) {
    const std::vector<GoalId> goals = negations(witness.goal);
    ObjectForm one;
    one.rules.push_back({witness.keys, goals.empty() ? kNoValue : union_goal(goals)});
    out.push_back(std::move(one));
  }
  if (object.min > 0) {
    ObjectForm one;
    one.max = object.min - 1;
    out.push_back(std::move(one));
  }
  if (object.max.has_value()) {
    ObjectForm one;
    one.min = *object.max + 1;
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<ArrayForm> Normalizer::negations(const ArrayForm& array) {
  std::vector<ArrayForm> out;
  for (size_t i = 0; i < array.prefix.size(); ++i) {
    for (const GoalId goal : negations(array.prefix[i])) {
      ArrayForm one;
      one.prefix.assign(i, kAnyValue);
      one.prefix.push_back(goal);
      one.min = i + 1;
      out.push_back(std::move(one));
    }
  }
  for (const GoalId goal : negations(array.rest)) {
    ArrayForm one;
    if (goal == kAnyValue) {
      one.min = array.prefix.size() + 1;
    } else {
      one.contains.push_back({goal, array.prefix.size(), 1, std::nullopt});
    }
    out.push_back(std::move(one));
  }
  if (array.min > 0) {
    ArrayForm one;
    one.max = array.min - 1;
    out.push_back(std::move(one));
  }
  if (array.max.has_value()) {
    ArrayForm one;
    one.min = *array.max + 1;
    out.push_back(std::move(one));
  }
  for (const Contains& contains : array.contains) {
    if (contains.min > 0) {
      ArrayForm one;
      one.contains.push_back({contains.goal, contains.from, 0, contains.min - 1});
      out.push_back(std::move(one));
    }
    if (contains.max.has_value()) {
      ArrayForm one;
      one.contains.push_back({contains.goal, contains.from, *contains.max + 1, std::nullopt});
      out.push_back(std::move(one));
    }
  }
  if (array.unique) fail(Code::kUnsupported, current_place_, "not", "the complement of uniqueItems cannot be held to");
  return out;
}

NormalForm Normalizer::negate(const NormalForm& form) {
  NormalForm out;
  out.null = !form.null;
  out.no = !form.no;
  out.yes = !form.yes;
  out.number = complement(form.number, true);
  out.string = complement(form.string, false);
  out.arrays.emplace_back();
  for (const ArrayForm& array : form.arrays) {
    NormalForm one;
    one.arrays = negations(array);
    NormalForm before;
    before.arrays = std::move(out.arrays);
    out.arrays = intersect(before, one).arrays;
  }
  out.objects.emplace_back();
  for (const ObjectForm& object : form.objects) {
    NormalForm one;
    one.objects = negations(object);
    NormalForm before;
    before.objects = std::move(out.objects);
    out.objects = intersect(before, one).objects;
  }
  return out;
}

}  // namespace cairn::grammar
