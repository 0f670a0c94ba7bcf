// Forms of the keywords for objects.
#include <algorithm>
#include <utility>

#include "grammar/json_schema/normalizer.h"

namespace cairn::grammar {

void Normalizer::properties(const Schema& schema, const Json& value, NormalForm& out) {
  if (!value.is_object()) {
    bad(schema, "properties", "an object of schemas");
    return;
  }
  ObjectForm object;
  for (const auto& [name, member] : value.items()) {
    if (!member.is_object() && !member.is_boolean()) {
      fail(Code::kInvalidArgument, schema.place, "properties", "the member " + name + " is no schema");
      return;
    }
    const GoalId goal = goal_of(member);
    using enum Member::Presence;
    const bool old_required =
        member.is_object() && member.contains("required") && member["required"] == true;  // draft 3's
    object.members.push_back({name, goal, goal == kNoValue ? kAbsent : old_required ? kRequired : kOptional, true});
    object.evaluated_names.push_back(name);
  }
  out = object_only(std::move(object));
}

void Normalizer::pattern_properties(const Schema& schema, const Json& value, NormalForm& out) {
  if (!value.is_object()) {
    bad(schema, "patternProperties", "an object of schemas");
    return;
  }
  ObjectForm object;
  for (const auto& [pattern, member] : value.items()) {
    SchemaPlace place = schema.place;
    place.pointer += "/patternProperties" + pointer_token(pattern);
    const size_t before = place.pointer.size();
    const RegexId keys = key_pattern(place, "", pattern);
    if (error_.has_value() && error_->keyword.empty() && error_->at.size() == before)
      error_->keyword = "patternProperties";
    object.evaluated_keys.push_back(keys);
    const GoalId goal = goal_of(member);
    if (goal != kAnyValue) object.rules.push_back({keys, goal});
  }
  out = object_only(std::move(object));
}

void Normalizer::additional_properties(const Schema& schema, const Json& value, NormalForm& out) {
  std::vector<RegexId> known;
  const auto properties = schema.value.find("properties");
  if (properties != schema.value.end() && properties->is_object()) {
    for (const auto& [name, member] : properties->items()) known.push_back(text_.literal(name));
  }
  const auto patterns = schema.value.find("patternProperties");
  if (patterns != schema.value.end() && patterns->is_object()) {
    for (const auto& [pattern, member] : patterns->items()) {
      known.push_back(key_pattern(schema.place, "patternProperties", pattern));
    }
  }
  ObjectForm object;
  object.evaluated_all = true;
  const RegexId keys =
      known.empty() ? text_.any_string() : text_.except(text_.canonical_string(), text_.pool().any_of(known));
  const GoalId goal = goal_of(value);
  if (goal != kAnyValue) object.rules.push_back({keys, goal});
  out = object_only(std::move(object));
}

void Normalizer::property_names(const Json& value, NormalForm& out) {
  const TextSet& names = form_of(value).string;
  ObjectForm object;
  if (names.text == text_.any_string()) return;
  if (!names.exact) {  // left-out names are forbidden, which is no wrong answer
    object.rules.push_back({text_.except(text_.canonical_string(), names.text), kNoValue});
  } else {
    const RegexId all = names.every_spelling ? text_.any_string() : text_.canonical_string();
    object.rules.push_back({text_.except(all, names.text), kNoValue});
    // Keys outside the canonical spellings are no names of the set either.
    if (!names.every_spelling) {
      object.rules.back().keys = text_.except(text_.any_string(), text_.both(text_.canonical_string(), names.text));
    }
  }
  out = object_only(std::move(object));
}

/// One member of `dependencies`, `dependentRequired` or `dependentSchemas`: the name is absent, or it is there and so
/// is what depends on it.
void Normalizer::dependency(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out) {
  using enum Member::Presence;
  if (!value.is_object()) {
    bad(schema, keyword, "an object");
    return;
  }
  for (const auto& [name, needs] : value.items()) {
    if (error_.has_value()) return;
    ObjectForm present;
    present.members.push_back({name, kAnyValue, kRequired, false, true});
    NormalForm with = object_only(present);
    if (needs.is_array() && keyword != "dependentSchemas") {
      for (const Json& need : needs) {
        if (!need.is_string()) {
          bad(schema, keyword, "lists of names");
          return;
        }
        if (need == name) continue;
        ObjectForm one;
        one.members.push_back({need.get<std::string>(), kAnyValue, kRequired, false, true});
        with = intersect(with, object_only(std::move(one)));
      }
    } else if (keyword == "dependencies" && needs.is_string()) {
      ObjectForm one;
      one.members.push_back({needs.get<std::string>(), kAnyValue, kRequired, false, true});
      with = intersect(with, object_only(std::move(one)));
    } else if (keyword != "dependentRequired") {
      const NormalForm only_objects = [&] {
        NormalForm form = any_form();
        form.objects = form_of(needs).objects;
        return form;
      }();
      with = intersect(with, only_objects);
    } else {
      bad(schema, keyword, "lists of names");
      return;
    }
    ObjectForm absent;
    absent.members.push_back({name, kAnyValue, kAbsent, false});
    NormalForm either = object_only(std::move(absent));
    either.objects.insert(either.objects.end(), with.objects.begin(), with.objects.end());
    out = intersect(out, either);
  }
}

bool Normalizer::object_keyword(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out) {
  const Draft draft = schema.place.draft;
  if (keyword == "properties") {
    properties(schema, value, out);
  } else if (keyword == "patternProperties") {
    pattern_properties(schema, value, out);
  } else if (keyword == "additionalProperties") {
    additional_properties(schema, value, out);
  } else if (keyword == "propertyNames" && draft >= Draft::k6) {
    property_names(value, out);
  } else if (keyword == "required") {
    if (value.is_boolean()) return false;  // draft 3's, which properties() reads
    if (!value.is_array()) return bad(schema, keyword, "a list of names");
    ObjectForm object;
    for (const Json& name : value) {
      if (!name.is_string()) return bad(schema, keyword, "a list of names");
      if (std::ranges::find(object.members, name.get_ref<const std::string&>(), &Member::name) != object.members.end())
        continue;
      object.members.push_back({name.get<std::string>(), kAnyValue, Member::Presence::kRequired, false, true});
    }
    out = object_only(std::move(object));
  } else if (keyword == "minProperties" || keyword == "maxProperties") {
    const std::optional<uint64_t> bound = count(schema, keyword, value);
    if (!bound.has_value()) return true;
    ObjectForm object;
    if (keyword == "minProperties") object.min = *bound;
    if (keyword == "maxProperties") object.max = bound;
    out = object_only(std::move(object));
  } else if ((keyword == "dependencies" && draft <= Draft::k7) ||
             ((keyword == "dependentRequired" || keyword == "dependentSchemas") && draft >= Draft::k2019)) {
    dependency(schema, keyword, value, out);
  } else {
    return false;
  }
  return true;
}

}  // namespace cairn::grammar
