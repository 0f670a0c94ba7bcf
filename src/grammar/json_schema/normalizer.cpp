#include "grammar/json_schema/normalizer.h"

#include <algorithm>
#include <set>
#include <utility>

namespace cairn::grammar {

namespace {

constexpr uint32_t kImpossible = UINT32_MAX;  // a node that nothing fits

}  // namespace

Normalizer::Normalizer(SchemaIndex& index, JsonText& text, NumberText& numbers, const SchemaOptions& options,
                       bool tracks)
    : index_(index),
      text_(text),
      numbers_(numbers),
      assert_formats_(options.assert_formats),
      declared_only_(options.reading == SchemaReading::kDeclared),
      tracks_(tracks) {
  goals_.push_back({{}, any_form()});
  goals_.push_back({{{kImpossible, false}}, NormalForm{}});
  goal_ids_[goals_[0].literals] = kAnyValue;
  goal_ids_[goals_[1].literals] = kNoValue;
}

void Normalizer::fail(Code code, const SchemaPlace& place, std::string_view keyword, std::string message) {
  if (error_.has_value()) return;
  const std::string at = keyword.empty() ? place.pointer : place.pointer + pointer_token(keyword);
  error_ = SchemaError{code, at, std::string(keyword), std::move(message)};
}

const SchemaPlace& Normalizer::place_of(GoalId goal) const {
  for (const Literal& literal : goals_[static_cast<size_t>(goal)].literals) {
    if (literal.node == kImpossible) continue;
    const Node& node = nodes_[literal.node];
    if (node.kind == NodeKind::kSchema && index_.knows(*node.value)) return index_.at(*node.value);
  }
  return current_place_;
}

uint32_t Normalizer::node_of(const Json& value, NodeKind kind) {
  const auto [place, added] = node_ids_.emplace(std::pair(&value, kind), static_cast<uint32_t>(nodes_.size()));
  if (added) nodes_.push_back({kind, &value});
  return place->second;
}

GoalId Normalizer::conjunction(std::vector<Literal> literals) {
  std::ranges::sort(literals);
  literals.erase(std::ranges::unique(literals).begin(), literals.end());
  for (size_t i = 0; i < literals.size(); ++i) {
    if (literals[i].node == kImpossible) return kNoValue;
    if (i > 0 && literals[i].node == literals[i - 1].node) return kNoValue;
  }
  const auto [place, added] = goal_ids_.emplace(literals, GoalId{static_cast<uint32_t>(goals_.size())});
  if (added) goals_.push_back({std::move(literals)});
  return place->second;
}

GoalId Normalizer::goal_of(const Json& schema) {
  if (schema.is_boolean()) return schema.get<bool>() ? kAnyValue : kNoValue;
  if (schema.is_object() && schema.empty()) return kAnyValue;
  return conjunction({{node_of(schema, NodeKind::kSchema), false}});
}

GoalId Normalizer::constant_goal(const Json& value) {
  return conjunction({{node_of(value, NodeKind::kConstant), false}});
}

GoalId Normalizer::union_goal(std::vector<GoalId> goals) {
  std::ranges::sort(goals);
  goals.erase(std::ranges::unique(goals).begin(), goals.end());
  std::erase(goals, kNoValue);
  if (goals.empty()) return kNoValue;
  if (goals[0] == kAnyValue) return kAnyValue;
  if (goals.size() == 1) return goals[0];
  const auto [place, added] = union_ids_.emplace(goals, static_cast<uint32_t>(nodes_.size()));
  if (added) nodes_.push_back({NodeKind::kUnion, nullptr, goals});
  return conjunction({{place->second, false}});
}

GoalId Normalizer::both(GoalId a, GoalId b) {
  if (a == b || b == kAnyValue) return a;
  if (a == kAnyValue) return b;
  if (a == kNoValue || b == kNoValue) return kNoValue;
  std::vector<Literal> literals = goals_[static_cast<size_t>(a)].literals;
  const std::vector<Literal>& more = goals_[static_cast<size_t>(b)].literals;
  literals.insert(literals.end(), more.begin(), more.end());
  return conjunction(std::move(literals));
}

std::vector<GoalId> Normalizer::negations(GoalId goal) {
  if (goal == kAnyValue) return {};
  if (goal == kNoValue) return {kAnyValue};
  std::vector<GoalId> out;
  const std::vector<Literal> literals = goals_[static_cast<size_t>(goal)].literals;
  for (const Literal& literal : literals) out.push_back(conjunction({{literal.node, !literal.negated}}));
  return out;
}

const NormalForm& Normalizer::node_form(uint32_t id) {
  Node& node = nodes_[id];
  static const NormalForm kNothing;
  if (node.form.has_value()) return *node.form;
  if (error_.has_value()) return kNothing;
  if (node.busy) {
    const bool known = node.kind == NodeKind::kSchema && index_.knows(*node.value);
    fail(Code::kInvalidArgument, known ? index_.at(*node.value) : current_place_, "$ref",
         "a schema that refers to itself for the same value says nothing; take the circle of references out");
    circle_ = true;
    return kNothing;
  }
  if (depth_ > kReferenceDepthMax) {
    const bool known = node.kind == NodeKind::kSchema && index_.knows(*node.value);
    fail(Code::kTooLarge, known ? index_.at(*node.value) : current_place_, "",
         "more than " + std::to_string(kReferenceDepthMax) + " schemas within each other apply to the same value");
    return kNothing;
  }
  node.busy = true;
  ++depth_;
  NormalForm out;
  if (node.kind == NodeKind::kConstant) {
    out = value_form(*node.value);
  } else if (node.kind == NodeKind::kUnion) {
    const std::vector<GoalId> goals = node.goals;
    std::vector<const NormalForm*> forms;
    for (const GoalId goal : goals) forms.push_back(&this->form(goal));
    out = unite(forms);
  } else {
    out = schema_form(*node.value);
  }
  --depth_;
  node.busy = false;
  node.form = std::move(out);
  made_.push_back({Made::What::kForm, id});
  return *node.form;
}

const NormalForm& Normalizer::negated_form(uint32_t id) {
  if (!nodes_[id].negated.has_value()) {
    NormalForm negated = negate(node_form(id));
    nodes_[id].negated = std::move(negated);
    made_.push_back({Made::What::kNegated, id});
  }
  return *nodes_[id].negated;
}

const NormalForm& Normalizer::form(GoalId id) {
  if (goals_[static_cast<size_t>(id)].form.has_value()) return *goals_[static_cast<size_t>(id)].form;
  const std::vector<Literal> literals = goals_[static_cast<size_t>(id)].literals;
  NormalForm out = any_form();
  for (const Literal& literal : literals) {
    const NormalForm& one = literal.negated ? negated_form(literal.node) : node_form(literal.node);
    out = intersect(out, one);
    if (error_.has_value()) break;
  }
  if (declared_only_ && !error_.has_value()) close_objects(out);
  for (ArrayForm& array : out.arrays) {
    array.evaluated_prefix = 0;
    array.evaluated_all = false;
    array.evaluated_contains.clear();
  }
  for (ObjectForm& object : out.objects) {
    object.evaluated_names.clear();
    object.evaluated_keys.clear();
    object.evaluated_all = false;
    for (Member& member : object.members) member.named = false;
  }
  prune(out);
  goals_[static_cast<size_t>(id)].form = std::move(out);
  made_.push_back({Made::What::kGoal, static_cast<uint32_t>(id)});
  return *goals_[static_cast<size_t>(id)].form;
}

void Normalizer::close_objects(NormalForm& form) {
  // A name that only `required` knows is as good as a declared one, in each of the alternatives.
  std::set<std::string> named;
  for (const ObjectForm& object : form.objects)
    for (const Member& member : object.members)
      if (member.named) named.insert(member.name);
  for (const ObjectForm& object : form.objects)
    for (const Member& member : object.members)
      if (member.declared) named.erase(member.name);
  std::vector<ObjectForm> closed;
  for (const ObjectForm& object : form.objects) {
    const bool declares = std::ranges::any_of(object.members, [](const Member& member) {
      return member.declared && member.presence != Member::Presence::kAbsent;
    });
    if (object.evaluated_all || !declares) {
      closed.push_back(object);
      continue;
    }
    std::vector<RegexId> known = object.evaluated_keys;
    for (const Member& member : object.members)
      if (member.declared || member.named) known.push_back(text_.literal(member.name));
    for (const std::string& name : named) known.push_back(text_.literal(name));
    const RegexId others = text_.except(text_.canonical_string(), text_.pool().any_of(known));
    std::optional<ObjectForm> one = intersect(object, ObjectForm{.rules = {{others, kNoValue}}});
    if (one.has_value() && !empty(*one, 0)) closed.push_back(*std::move(one));
  }
  if (!closed.empty()) form.objects = std::move(closed);
}

void Normalizer::forget_circle(size_t kept) {
  for (; made_.size() > kept; made_.pop_back()) {
    const auto [what, id] = made_.back();
    if (what == Made::What::kForm) nodes_[id].form.reset();
    if (what == Made::What::kNegated) nodes_[id].negated.reset();
    if (what == Made::What::kGoal) goals_[id].form.reset();
  }
  error_.reset();
  circle_ = false;
}

void Normalizer::prune(NormalForm& form) {
  std::erase_if(form.arrays, [&](const ArrayForm& array) { return empty(array, 0); });
  std::erase_if(form.objects, [&](const ObjectForm& object) { return empty(object, 0); });
  const auto unique = [](auto& forms) {
    for (size_t i = 0; i < forms.size(); ++i) {
      for (size_t j = forms.size(); j-- > i + 1;) {
        if (forms[i] == forms[j]) forms.erase(forms.begin() + static_cast<std::ptrdiff_t>(j));
      }
    }
  };
  if (form.arrays.size() < 200) unique(form.arrays);
  if (form.objects.size() < 200) unique(form.objects);
}

bool Normalizer::empty(GoalId id, int depth) {
  if (id == kAnyValue) return false;
  if (id == kNoValue) return true;
  Goal& goal = goals_[static_cast<size_t>(id)];
  if (goal.emptiness == Goal::Emptiness::kEmpty) return true;
  if (goal.emptiness != Goal::Emptiness::kUnknown || depth > kEmptinessDepthMax || error_.has_value()) return false;
  if (depth_ > kReferenceDepthMax / 2) return false;
  for (const Literal& literal : goal.literals) {
    if (nodes_[literal.node].busy) return false;
  }
  goal.emptiness = Goal::Emptiness::kBusy;
  ++depth_;
  const size_t made = made_.size();
  bool nothing = empty(form(id), depth + 1);
  --depth_;
  // What is asked about needs a form that is being made, and it is asked below a member: that is no circle of
  // references for one value. Nothing is certain then.
  if (circle_) {
    forget_circle(made);
    nothing = false;
  }
  goals_[static_cast<size_t>(id)].emptiness = nothing ? Goal::Emptiness::kEmpty : Goal::Emptiness::kNotEmpty;
  return nothing;
}

bool Normalizer::empty(const NormalForm& form, int depth) {
  if (form.null || form.no || form.yes || !text_.none(form.number.text) || !text_.none(form.string.text)) return false;
  return std::ranges::all_of(form.arrays, [&](const ArrayForm& array) { return empty(array, depth); }) &&
         std::ranges::all_of(form.objects, [&](const ObjectForm& object) { return empty(object, depth); });
}

bool Normalizer::empty(const ObjectForm& object, int depth) {
  if (object.max.has_value() && object.min > *object.max) return true;
  uint64_t required = 0;
  for (const Member& member : object.members) {
    if (member.presence != Member::Presence::kRequired) continue;
    ++required;
    if (empty(member_goal(object, member), depth)) return true;
  }
  if (object.max.has_value() && required > *object.max) return true;
  if (required >= object.min && object.witnesses.empty()) return false;
  // Are there enough names?
  RegexId others = text_.canonical_string();
  for (const KeyRule& rule : object.rules) {
    if (empty(rule.goal, depth)) others = text_.except(others, rule.keys);
  }
  std::vector<RegexId> names;
  for (const Member& member : object.members) names.push_back(text_.literal(member.name));
  if (!text_.none(text_.except(others, text_.pool().any_of(names)))) return false;
  const auto possible = std::ranges::count_if(object.members, [&](const Member& member) {
    return member.presence != Member::Presence::kAbsent && !empty(member_goal(object, member), depth);
  });
  if (static_cast<uint64_t>(possible) < object.min) return true;
  return std::ranges::any_of(object.witnesses, [&](const KeyRule& witness) {
    return std::ranges::none_of(object.members, [&](const Member& member) {
      return member.presence != Member::Presence::kAbsent && key_matches(witness.keys, member.name) &&
             !empty(both(member_goal(object, member), witness.goal), depth);
    });
  });
}

bool Normalizer::empty(const ArrayForm& array, int depth) {
  if (array.max.has_value() && array.min > *array.max) return true;
  for (size_t i = 0; i < array.prefix.size() && i < array.min; ++i) {
    if (empty(array.prefix[i], depth)) return true;
  }
  if (array.min > array.prefix.size() && empty(array.rest, depth)) return true;
  return std::ranges::any_of(array.contains, [&](const Contains& contains) {
    if (contains.min == 0) return false;
    if (contains.max.has_value() && *contains.max < contains.min) return true;
    if (empty(contains.goal, depth)) return true;
    if (array.max.has_value() && *array.max < contains.from + contains.min) return true;
    for (size_t i = contains.from; i < array.prefix.size(); ++i) {
      if (!empty(both(array.prefix[i], contains.goal), depth)) return false;
    }
    return empty(both(array.rest, contains.goal), depth);
  });
}

bool Normalizer::key_matches(RegexId keys, const std::string& name) {
  const auto known = key_matches_.find({keys, name});
  if (known != key_matches_.end()) return known->second;
  const bool matches = text_.matches(keys, text_.spelled_body(name));
  key_matches_.emplace(std::pair(keys, name), matches);
  return matches;
}

GoalId Normalizer::member_goal(const ObjectForm& object, const Member& member) {
  GoalId goal = member.goal;
  for (const KeyRule& rule : object.rules) {
    if (key_matches(rule.keys, member.name)) goal = both(goal, rule.goal);
  }
  return goal;
}

}  // namespace cairn::grammar
