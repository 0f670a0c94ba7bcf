// Rules for objects.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "grammar/json_schema/writer.h"

namespace cairn::grammar {

// White space stands before what it belongs to, not behind commas, where nothing but a comma has been: so the parser's
// rows behind all commas of a list are alike.

SymbolId GrammarWriter::member(RegexId quoted_key, GoalId goal) {
  const RegexId parts[] = {space_, quoted_key, space_, text_.pool().literal(":"), space_};
  const SymbolId symbols[] = {builder_.terminal(text_.pool().sequence(parts)), symbol(goal)};
  return builder_.sequence(symbols);
}

SymbolId GrammarWriter::named_member(const std::string& name, GoalId goal) {
  const auto [place, added] = members_.try_emplace({name, goal});
  if (added) place->second = member(text_.key_of(name), goal);
  return place->second;
}

/// Classes of keys of which each meets the same rules, without those for which nothing fits.
std::vector<GrammarWriter::Key> GrammarWriter::key_classes(const ObjectForm& object, RegexId all, GoalId goal) {
  std::vector<Key> classes{{all, goal}};
  for (const KeyRule& rule : object.rules) {
    std::vector<Key> next;
    for (const Key& key : classes) {
      const Key inside{text_.both(key.keys, rule.keys), normalizer_.both(key.goal, rule.goal)};
      const Key outside{text_.except(key.keys, rule.keys), key.goal};
      if (inside.goal != kNoValue && !text_.none(inside.keys)) next.push_back(inside);
      if (!text_.none(outside.keys)) next.push_back(outside);
    }
    classes = std::move(next);
    if (classes.size() > kKeyClassesMax) {
      fail(goal, Code::kTooLarge, "patternProperties",
           "keys fall into more than " + std::to_string(kKeyClassesMax) + " classes that meet different schemas");
      return {};
    }
  }
  std::vector<Key> merged;
  for (const Key& key : classes) {
    if (normalizer_.empty(key.goal)) continue;
    const auto same = std::ranges::find(merged, key.goal, &Key::goal);
    if (same == merged.end()) {
      merged.push_back(key);
    } else {
      same->keys = text_.either(same->keys, key.keys);
    }
  }
  return merged;
}

void GrammarWriter::add_object(SymbolId rule, GoalId goal, ObjectForm object) {
  if (normalizer_.error().has_value()) return;
  // A name that nothing is said about is like any other.
  std::erase_if(object.members, [](const Member& one) {
    return !one.declared && one.presence == Member::Presence::kOptional && one.goal == kAnyValue;
  });
  if (!split_witness(rule, goal, object)) add_plain_object(rule, goal, object);
}

/// A member that must exist is one of the known names, or another key. Replaces the object by one for each.
bool GrammarWriter::split_witness(SymbolId rule, GoalId goal, const ObjectForm& object) {
  for (size_t i = 0; i < object.witnesses.size(); ++i) {
    const KeyRule& witness = object.witnesses[i];
    bool split = false;
    ObjectForm others = object;  // in which none of the names is the witness's
    for (size_t j = 0; j < object.members.size(); ++j) {
      const Member& one = object.members[j];
      if (one.presence == Member::Presence::kAbsent || !normalizer_.key_matches(witness.keys, one.name)) continue;
      split = true;
      ObjectForm with = object;
      with.witnesses.erase(with.witnesses.begin() + static_cast<std::ptrdiff_t>(i));
      with.members[j].presence = Member::Presence::kRequired;
      with.members[j].goal = normalizer_.both(one.goal, witness.goal);
      add_object(rule, goal, with);
      others.witnesses[i].keys = text_.except(others.witnesses[i].keys, text_.literal(one.name));
    }
    if (split) {
      if (!text_.none(others.witnesses[i].keys)) add_object(rule, goal, others);
      return true;
    }
  }
  return false;
}

/// A member whose key is one of `all`, and whose value fits the goal and the object's rules. Nullopt: there is none.
std::optional<SymbolId> GrammarWriter::any_member(const ObjectForm& object, RegexId all, GoalId goal) {
  std::pair<RegexId, std::vector<std::pair<RegexId, GoalId>>> key{all, {{kNoMatch, goal}}};
  for (const KeyRule& rule : object.rules) key.second.emplace_back(rule.keys, rule.goal);
  const auto [place, added] = others_.try_emplace(std::move(key));
  if (!added) return place->second;
  std::vector<SymbolId> choices;
  for (const Key& one : key_classes(object, all, goal)) choices.push_back(member(text_.key(one.keys), one.goal));
  if (!choices.empty()) place->second = builder_.any_of(choices);
  return place->second;
}

void GrammarWriter::add_plain_object(SymbolId rule, GoalId goal, const ObjectForm& object) {
  if (object.witnesses.size() > kWitnessesMax) {
    fail(goal, Code::kTooLarge, "not",
         "more than " + std::to_string(kWitnessesMax) + " conditions that some member or other must break");
    return;
  }
  add_witnesses(rule, goal, object, {}, 0);
}

/// A member may be the witness of several rules at once: adds the object for each way to group the rules from `next`
/// on.
void GrammarWriter::add_witnesses(SymbolId rule, GoalId goal, const ObjectForm& object, std::vector<KeyRule> groups,
                                  size_t next) {
  if (next == object.witnesses.size()) {
    add_members(rule, goal, object, groups);
    return;
  }
  const KeyRule& witness = object.witnesses[next];
  for (size_t i = 0; i < groups.size(); ++i) {
    std::vector<KeyRule> together = groups;
    together[i] = {text_.both(groups[i].keys, witness.keys), normalizer_.both(groups[i].goal, witness.goal)};
    add_witnesses(rule, goal, object, std::move(together), next + 1);
  }
  groups.push_back(witness);
  add_witnesses(rule, goal, object, std::move(groups), next + 1);
}

void GrammarWriter::add_members(SymbolId rule, GoalId goal, const ObjectForm& object,
                                std::span<const KeyRule> witnesses) {
  using enum Member::Presence;
  Fields fields, later;
  std::vector<RegexId> names;
  for (const Member& one : object.members) {
    names.push_back(text_.literal(one.name));
    if (one.presence == kAbsent) continue;
    const GoalId value = normalizer_.member_goal(object, one);
    if (normalizer_.empty(value)) {
      if (one.presence == kRequired) return;
      continue;
    }
    const bool ordered = one.declared && order_ == KeyOrder::kSchema;
    (ordered ? fields : later).add(named_member(one.name, value), {.required = one.presence == kRequired});
  }
  const auto ordered = static_cast<uint32_t>(fields.symbols.size());
  for (size_t i = 0; i < later.symbols.size(); ++i) fields.add(later.symbols[i], later.kinds[i]);
  const bool every_spelling = names.empty() && std::ranges::all_of(object.rules, [&](const KeyRule& one) {
                                return one.keys == text_.any_string();
                              });
  const RegexId all =
      every_spelling ? text_.any_string() : text_.except(text_.canonical_string(), text_.pool().any_of(names));
  const std::optional<SymbolId> other = any_member(object, all, kAnyValue);
  if (other.has_value()) fields.add(*other, {.repeats = true});
  for (const KeyRule& witness : witnesses) {
    const std::optional<SymbolId> one = any_member(object, text_.both(all, witness.keys), witness.goal);
    if (!one.has_value()) return;
    fields.add(*one, {.required = true});
  }
  const std::optional<SymbolId> members = list_members(goal, object, fields, ordered, comma_);
  if (!members.has_value()) return;
  RegexPool& pool = text_.pool();
  const SymbolId close = builder_.terminal(text_.then(space_, pool.literal("}")));
  if (may_be_empty(object, fields)) {
    builder_.add(rule, {builder_.terminal(text_.then(pool.literal("{"), text_.then(space_, pool.literal("}"))))});
  }
  builder_.add(rule, {builder_.literal("{"), *members, close});
}

bool GrammarWriter::may_be_empty(const ObjectForm& object, const Fields& fields) {
  return object.min == 0 && std::ranges::none_of(fields.kinds, &MemberList::Element::required);
}

/// The list of an object's members, at least one. Nullopt: so many or so few are impossible.
std::optional<SymbolId> GrammarWriter::list_members(GoalId goal, const ObjectForm& object, const Fields& fields,
                                                    uint32_t ordered, SymbolId separator) {
  const auto sure = static_cast<uint64_t>(std::ranges::count(fields.kinds, true, &MemberList::Element::required));
  const bool others = std::ranges::any_of(fields.kinds, &MemberList::Element::repeats);
  const uint64_t least = object.min <= sure ? 0 : object.min;
  if (object.max.has_value() && *object.max < sure) return std::nullopt;
  if (least > fields.kinds.size()) {  // keys that are not declared may repeat
    if (!others) return std::nullopt;
    return fail(goal, Code::kUnsupported, "minProperties",
                "more members than are declared: other keys may repeat, and count as one");
  }
  std::optional<uint32_t> most;
  if (object.max.has_value() && (others || fields.kinds.size() > *object.max))
    most = static_cast<uint32_t>(*object.max);
  return builder_.members(fields.symbols, fields.kinds, ordered, separator, static_cast<uint32_t>(least), most);
}

}  // namespace cairn::grammar
