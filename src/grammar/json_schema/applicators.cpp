// Forms of the keywords that apply schemas to the same value.
#include <algorithm>
#include <utility>

#include "grammar/json_schema/normalizer.h"

namespace cairn::grammar {

bool Normalizer::applicator(const Schema& schema, std::string_view keyword, const Json& value,
                            const NormalForm& siblings, NormalForm& out) {
  const bool lists = keyword == "allOf" || keyword == "anyOf" || keyword == "oneOf";
  if (lists && (!value.is_array() || value.empty())) return bad(schema, keyword, "a list of schemas that is not empty");
  if (keyword == "allOf") {
    for (const Json& branch : value) {
      if (error_.has_value()) break;
      if (branch.is_object() && branch.size() == 1 && branch.contains("oneOf") && branch["oneOf"].is_array()) {
        NormalForm choice;  // told apart by what stands beside allOf
        one_of(schema, branch["oneOf"], siblings, choice);
        out = intersect(out, choice);
      } else {
        out = intersect(out, form_of(branch));
      }
    }
  } else if (keyword == "anyOf") {
    any_of(schema, value, out);
  } else if (keyword == "oneOf") {
    one_of(schema, value, siblings, out);
  } else if (keyword == "not") {
    const NormalForm inner = form_of(value);
    if (error_.has_value()) return true;
    if (tracks_ && value.is_object() &&
        (value.contains("unevaluatedProperties") || value.contains("unevaluatedItems"))) {
      fail(Code::kUnsupported, schema.place, keyword, "the complement of unevaluatedProperties or unevaluatedItems");
      return true;
    }
    out = negate(inner);
    if (error_.has_value() && error_->keyword == keyword) error_->at = schema.place.pointer + "/not";
  } else if (keyword == "if" && schema.place.draft >= Draft::k7) {
    if_then_else(schema, value, out);
  } else {
    return false;
  }
  return true;
}

void Normalizer::any_of(const Schema& schema, const Json& value, NormalForm& out) {
  out = {};
  std::vector<const NormalForm*> branches;
  for (const Json& branch : value) {
    branches.push_back(&form_of(branch));
    if (error_.has_value()) return;
  }
  out = unite(branches);
  const bool evaluates =
      tracks_ && std::ranges::any_of(branches, [](const NormalForm* form) {
        const auto array = [](const ArrayForm& one) {
          return one.evaluated_prefix > 0 || one.evaluated_all || !one.evaluated_contains.empty();
        };
        const auto object = [](const ObjectForm& one) {
          return !one.evaluated_names.empty() || !one.evaluated_keys.empty() || one.evaluated_all;
        };
        return std::ranges::any_of(form->arrays, array) || std::ranges::any_of(form->objects, object);
      });
  if (!evaluates) return;
  // A value that several branches allow has what each of them evaluates.
  if (branches.size() > kTrackedBranchesMax) {
    fail(Code::kTooLarge, schema.place, "anyOf",
         "more than " + std::to_string(kTrackedBranchesMax) + " branches in a schema with unevaluated keywords");
    return;
  }
  for (size_t set = 1; set < size_t{1} << branches.size(); ++set) {
    if ((set & (set - 1)) == 0) continue;
    NormalForm all = any_form();
    for (size_t i = 0; i < branches.size(); ++i) {
      if ((set >> i & 1) != 0) all = intersect(all, *branches[i]);
    }
    unite(out, all);
  }
}

/// `siblings`: what is known from beside oneOf. Branches that have nothing in common there are left as they are.
void Normalizer::one_of(const Schema& schema, const Json& value, const NormalForm& siblings, NormalForm& out) {
  std::vector<const NormalForm*> branches;
  for (const Json& branch : value) {
    branches.push_back(&form_of(branch));
    if (error_.has_value()) return;
  }
  if (branches.size() > kOneOfBranchesMax) {
    fail(Code::kTooLarge, schema.place, "oneOf", "more than " + std::to_string(kOneOfBranchesMax) + " branches");
    return;
  }
  out = {};
  std::vector<NormalForm> within_siblings;
  for (const NormalForm* branch : branches) within_siblings.push_back(intersect(*branch, siblings));
  std::vector<bool> overlap(branches.size() * branches.size());
  for (size_t i = 0; i < branches.size() && !error_.has_value(); ++i) {
    for (size_t j = 0; j < i && !error_.has_value(); ++j) {
      const bool common = !apart(within_siblings[i], within_siblings[j]) &&
                          !empty(intersect(within_siblings[i], within_siblings[j]), 0);
      overlap[i * branches.size() + j] = overlap[j * branches.size() + i] = common;
    }
  }
  for (size_t i = 0; i < branches.size() && !error_.has_value(); ++i) {
    NormalForm one = *branches[i];
    for (size_t j = 0; j < branches.size() && !error_.has_value(); ++j) {
      if (i == j || !overlap[i * branches.size() + j]) continue;
      const uint32_t node = node_of(value[j], NodeKind::kSchema);
      one = intersect(one, value[j].is_boolean() ? negate(*branches[j]) : negated_form(node));
    }
    if (error_.has_value()) {
      if (error_->keyword == "not") {
        error_->keyword = "oneOf";
        error_->at = schema.place.pointer + "/oneOf";
        error_->message = "branches that overlap cannot be told apart: " + error_->message;
      }
      return;
    }
    unite(out, one);
  }
}

void Normalizer::if_then_else(const Schema& schema, const Json& value, NormalForm& out) {
  const auto branch = [&](const char* keyword) {
    return schema.value.contains(keyword) ? form_of(schema.value[keyword]) : any_form();
  };
  if (!tracks_ && !schema.value.contains("then") && !schema.value.contains("else")) return;
  const NormalForm condition = form_of(value);
  if (error_.has_value()) return;
  out = intersect(condition, branch("then"));
  const NormalForm otherwise = negate(condition);
  unite(out, intersect(otherwise, branch("else")));
  if (error_.has_value() && error_->keyword == "not") {
    error_->keyword = "if";
    error_->at = schema.place.pointer + "/if";
  }
}

bool Normalizer::reference(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out) {
  const bool dynamic = keyword == "$dynamicRef" && schema.place.draft >= Draft::k2020;
  const bool recursive = keyword == "$recursiveRef" && schema.place.draft == Draft::k2019;
  if (keyword != "$ref" && !dynamic && !recursive) return false;
  if (!value.is_string()) return keyword == "$ref" ? bad(schema, keyword, "a URI reference") : false;
  const auto& uri = value.get_ref<const std::string&>();
  bool ambiguous = false;
  const Json* target = recursive ? index_.find_recursive(schema.place, ambiguous)
                       : dynamic ? index_.find_dynamic(schema.place, uri, ambiguous)
                                 : index_.find(schema.place, uri);
  if (target == nullptr) {
    fail(Code::kInvalidArgument, schema.place, keyword, "no schema is known as \"" + uri + "\"; nothing is fetched");
    return true;
  }
  if (ambiguous) {
    fail(Code::kUnsupported, schema.place, keyword, "which schema this means depends on how it is reached");
    return true;
  }
  out = form_of(*target);
  return true;
}

void Normalizer::unevaluated(const Schema& schema, NormalForm& form) {
  if (schema.place.draft < Draft::k2019 || error_.has_value()) return;
  if (const auto value = schema.value.find("unevaluatedProperties"); value != schema.value.end()) {
    const GoalId goal = goal_of(*value);
    for (ObjectForm& object : form.objects) {
      if (object.evaluated_all) continue;
      object.evaluated_all = true;
      if (goal == kAnyValue) continue;
      std::vector<RegexId> known = object.evaluated_keys;
      for (const std::string& name : object.evaluated_names) known.push_back(text_.literal(name));
      const RegexId keys =
          known.empty() ? text_.any_string() : text_.except(text_.canonical_string(), text_.pool().any_of(known));
      const std::optional<ObjectForm> both = intersect(object, ObjectForm{.rules = {{keys, goal}}});
      if (!both.has_value()) return;
      object = *both;
    }
  }
  const auto value = schema.value.find("unevaluatedItems");
  if (value == schema.value.end()) return;
  std::vector<ArrayForm> arrays;
  for (const ArrayForm& array : form.arrays) {
    if (array.evaluated_all) {
      arrays.push_back(array);
      continue;
    }
    std::vector<GoalId> choices = array.evaluated_contains;
    choices.push_back(goal_of(*value));
    ArrayForm rest{.rest = union_goal(choices), .evaluated_all = true};
    rest.prefix.resize(array.evaluated_prefix, kAnyValue);
    if (const std::optional<ArrayForm> both = intersect(array, rest)) arrays.push_back(*both);
  }
  form.arrays = std::move(arrays);
}

}  // namespace cairn::grammar
