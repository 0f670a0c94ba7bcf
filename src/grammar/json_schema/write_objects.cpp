// Rules for objects.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "grammar/json_schema/writer.h"

namespace cairn::grammar {

SymbolId GrammarWriter::member(RegexId quoted_key, GoalId goal) {
  const RegexId parts[] = {quoted_key, space_, text_.pool().literal(":"), space_};
  const SymbolId symbols[] = {builder_.terminal(text_.pool().sequence(parts)), symbol(goal)};
  return builder_.sequence(symbols);
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

void GrammarWriter::add_plain_object(SymbolId rule, GoalId goal, const ObjectForm& object) {
  using enum Member::Presence;
  ObjectPlan plan{.min = object.min, .max = object.max};
  std::vector<RegexId> names;
  const bool free_order = static_cast<size_t>(std::ranges::count_if(object.members, [](const Member& one) {
                            return !one.declared && one.presence != kAbsent;
                          })) <= kFreeNamesMax;
  for (const Member& one : object.members) {
    names.push_back(text_.literal(one.name));
    if (one.presence == kAbsent) continue;
    const GoalId value = normalizer_.member_goal(object, one);
    if (normalizer_.empty(value)) {
      if (one.presence == kRequired) return;
      continue;
    }
    Field field{one.name, member(text_.key_of(one.name), value), one.presence == kRequired};
    (one.declared || !free_order ? plan.fields : plan.free).push_back(std::move(field));
  }
  const bool every_spelling = names.empty() && std::ranges::all_of(object.rules, [&](const KeyRule& one) {
                                return one.keys == text_.any_string();
                              });
  const RegexId all =
      every_spelling ? text_.any_string() : text_.except(text_.canonical_string(), text_.pool().any_of(names));
  for (const Key& key : key_classes(object, all, kAnyValue)) {
    plan.others.push_back(member(text_.key(key.keys), key.goal));
  }
  for (const KeyRule& witness : object.witnesses) {
    std::vector<SymbolId> choices;
    for (const Key& key : key_classes(object, text_.both(all, witness.keys), witness.goal)) {
      choices.push_back(member(text_.key(key.keys), key.goal));
    }
    if (choices.empty()) return;
    plan.final.push_back(builder_.any_of(choices));
  }
  if (plan.final.size() > 1) {  // one member for both, or two in either order
    if (plan.final.size() > 2) {
      fail(goal, Code::kUnsupported, "not", "more than two conditions that some member or other must break");
      return;
    }
    ObjectForm together = object;
    const KeyRule last = together.witnesses.back();
    together.witnesses.pop_back();
    together.witnesses[0] = {text_.both(together.witnesses[0].keys, last.keys),
                             normalizer_.both(together.witnesses[0].goal, last.goal)};
    add_plain_object(rule, goal, together);
    const SymbolId orders[][3] = {{plan.final[0], comma_, plan.final[1]}, {plan.final[1], comma_, plan.final[0]}};
    plan.final = {
        builder_.any_of(std::initializer_list<SymbolId>{builder_.sequence(orders[0]), builder_.sequence(orders[1])})};
    plan.final_members = 2;
  } else {
    plan.final_members = plan.final.size();
  }
  const auto required = [](const std::vector<Field>& fields) {
    return static_cast<uint64_t>(std::ranges::count(fields, true, &Field::required));
  };
  const uint64_t sure = required(plan.fields) + required(plan.free) + plan.final_members;
  if (plan.min <= sure) plan.min = 0;
  if (plan.max.has_value() && plan.others.empty() &&
      plan.fields.size() + plan.free.size() + plan.final_members <= *plan.max) {
    plan.max.reset();
  }
  if (plan.max.has_value() && *plan.max < sure) return;
  RegexPool& pool = text_.pool();
  const SymbolId open = builder_.terminal(text_.then(pool.literal("{"), space_));
  const SymbolId close = builder_.terminal(text_.then(space_, pool.literal("}")));
  if (plan.min == 0 && sure == 0) {
    builder_.add(rule, {builder_.terminal(text_.then(pool.literal("{"), text_.then(space_, pool.literal("}"))))});
  }
  const bool counts = plan.min > 0 || plan.max.has_value();
  const SymbolId members = counts ? counted_fields(plan, goal) : fields(plan);
  builder_.add(rule, {open, members, close});
}

// A rule that begins behind a comma begins where no number goes on, so that the parser's rows are alike for all
// members: what follows a member is the end, or a comma and one symbol for all the rest.

/// What may follow when something was written: the end, or a comma and more.
SymbolId GrammarWriter::after(SymbolId more, bool may_end) {
  const SymbolId self = rule("more members");
  builder_.add(self, {comma_, more});
  if (may_end) builder_.add(self, {});
  return self;
}

/// At least one of the members that come behind the declared ones: others and free names, then the final ones. `seen`:
/// the free names that have been.
SymbolId GrammarWriter::tail(const ObjectPlan& plan, size_t seen, std::map<size_t, SymbolId>& made) {
  const auto known = made.find(seen);
  if (known != made.end()) return known->second;
  const SymbolId self = rule("members");
  made.emplace(seen, self);
  const SymbolId other = builder_.any_of(plan.others);
  builder_.add(self, {other, after(self, tail_may_end(plan, seen))});
  for (size_t i = 0; i < plan.free.size(); ++i) {
    if ((seen >> i & 1) != 0) continue;
    const size_t next = seen | size_t{1} << i;
    builder_.add(self, {plan.free[i].member, after(tail(plan, next, made), tail_may_end(plan, next))});
  }
  if (!plan.final.empty() && tail_may_end(plan, seen, false)) builder_.add(self, {plan.final[0]});
  return self;
}

bool GrammarWriter::tail_may_end(const ObjectPlan& plan, size_t seen, bool final_too) const {
  for (size_t i = 0; i < plan.free.size(); ++i) {
    if (plan.free[i].required && (seen >> i & 1) == 0) return false;
  }
  return !final_too || plan.final.empty();
}

/// At least one member; the order is that of the plan.
SymbolId GrammarWriter::fields(const ObjectPlan& plan) {
  std::map<size_t, SymbolId> tails;
  SymbolId begin = tail(plan, 0, tails);
  bool may_end = tail_may_end(plan, 0);
  for (size_t i = plan.fields.size(); i-- > 0;) {
    const Field& field = plan.fields[i];
    const SymbolId from_here = rule(field.name);
    builder_.add(from_here, {field.member, after(begin, may_end)});
    if (!field.required) builder_.add(from_here, {begin});
    may_end &= !field.required;
    begin = from_here;
  }
  return begin;
}

/// Likewise with a count of members; the free names have the places after the declared ones.
SymbolId GrammarWriter::counted_fields(const ObjectPlan& plan, GoalId goal) {
  std::vector<Field> all = plan.fields;
  all.insert(all.end(), plan.free.begin(), plan.free.end());
  if (all.size() * all.size() > kStatesMax) {
    return fail(goal, Code::kTooLarge, plan.min > 0 ? "minProperties" : "maxProperties",
                "counting members among these properties takes more than " + std::to_string(kStatesMax) + " states");
  }
  const SymbolId other = builder_.any_of(plan.others);
  const SymbolId next[] = {comma_, other};
  const SymbolId one_more = builder_.sequence(next);
  // What may come behind the declared members when `count` of them have been: nothing, or a comma and `begin`.
  std::vector<SymbolId> begin(all.size() + 2, nothing());
  std::vector<bool> may_end(all.size() + 2, false);
  for (uint64_t count = 0; count <= all.size(); ++count) {
    const uint64_t sure = count + plan.final_members;
    if (plan.max.has_value() && sure > *plan.max) continue;
    const uint64_t least = plan.min > sure ? plan.min - sure : 0;
    may_end[count] = least == 0 && plan.final.empty();
    if (least > 1 && !plan.others.empty()) {  // two of them might have the same key
      return fail(goal, Code::kUnsupported, "minProperties",
                  "more than one member beyond those in required: keys that are not declared may repeat");
    }
    std::vector<SymbolId> choices;
    if (!plan.others.empty() && (!plan.max.has_value() || *plan.max > sure)) {
      std::optional<uint32_t> rest;
      if (plan.max.has_value()) rest = static_cast<uint32_t>(*plan.max - sure - 1);
      std::vector<SymbolId> parts{other, builder_.repeat(one_more, 0, rest)};
      if (!plan.final.empty()) parts.insert(parts.end(), {comma_, plan.final[0]});
      choices.push_back(builder_.sequence(parts));
    }
    if (!plan.final.empty() && least == 0) choices.push_back(plan.final[0]);
    begin[count] = builder_.any_of(choices);
  }
  for (size_t i = all.size(); i-- > 0;) {
    std::vector<SymbolId> here(all.size() + 2, nothing());
    std::vector<bool> here_end(all.size() + 2, false);
    for (uint64_t count = 0; count <= i; ++count) {
      here[count] = rule(all[i].name);
      builder_.add(here[count], {all[i].member, after(begin[count + 1], may_end[count + 1])});
      if (!all[i].required) builder_.add(here[count], {begin[count]});
      here_end[count] = may_end[count] && !all[i].required;
    }
    begin = std::move(here);
    may_end = std::move(here_end);
  }
  return begin[0];
}

}  // namespace cairn::grammar
