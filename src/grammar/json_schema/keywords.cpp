// Forms of schemas and of the keywords for scalars and arrays.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text/json.h"
#include "grammar/json_schema/format.h"
#include "grammar/json_schema/normalizer.h"
#include "grammar/readers/regex_reader.h"

namespace cairn::grammar {

namespace {

// Beyond these no number is written: NumberText's digits before and behind the point.
constexpr double kMostMagnitude = 1e40, kLeastMagnitude = 1e-40;

constexpr uint64_t kCountMax = std::numeric_limits<int32_t>::max();

}  // namespace

bool Normalizer::bad(const Schema& schema, std::string_view keyword, std::string_view want) {
  fail(Code::kInvalidArgument, schema.place, keyword, "must be " + std::string(want));
  return true;
}

NormalForm Normalizer::object_only(ObjectForm object) const {
  NormalForm form = any_form();
  form.objects = {std::move(object)};
  return form;
}

NormalForm Normalizer::array_only(ArrayForm array) const {
  NormalForm form = any_form();
  form.arrays = {std::move(array)};
  return form;
}

const NormalForm& Normalizer::form_of(const Json& schema) {
  static const NormalForm kNothing;
  if (schema.is_boolean() || (schema.is_object() && schema.empty()))
    return *goals_[static_cast<size_t>(goal_of(schema))].form;
  if (!index_.knows(schema)) {
    fail(Code::kInvalidArgument, current_place_, "", "a schema must be an object or a boolean");
    return kNothing;
  }
  return node_form(node_of(schema, NodeKind::kSchema));
}

NormalForm Normalizer::schema_form(const Json& value) {
  if (!index_.knows(value)) {
    fail(Code::kInvalidArgument, current_place_, "", "a schema must be an object or a boolean");
    return {};
  }
  if (value.is_boolean()) return value.get<bool>() ? any_form() : NormalForm{};
  const SchemaPlace before = std::exchange(current_place_, index_.at(value));
  const Schema schema{value, index_.at(value)};
  NormalForm out = any_form();
  const bool reference_only = schema.place.draft <= Draft::k7 && value.contains("$ref") && value["$ref"].is_string();
  // Conditions come last: their names have places in the order only where no other keyword gives them one.
  std::vector<std::pair<std::string_view, const Json*>> keywords;
  for (const bool conditions : {false, true}) {
    for (const auto& [keyword, argument] : value.items()) {
      if (argument.is_null() && keyword != "const") continue;  // programs write it for what is absent
      const bool condition = keyword == "if" || keyword == "not" || keyword.starts_with("depend");
      if (condition == conditions) keywords.emplace_back(keyword, &argument);
    }
  }
  std::vector<NormalForm> assertions(keywords.size());
  const auto asserts = [&](size_t i) {
    const auto& [keyword, argument] = keywords[i];
    assertions[i] = any_form();
    return type_keyword(schema, keyword, *argument, assertions[i]) ||
           number_keyword(schema, keyword, *argument, assertions[i]) ||
           string_keyword(schema, keyword, *argument, assertions[i]) ||
           array_keyword(schema, keyword, *argument, assertions[i]) ||
           object_keyword(schema, keyword, *argument, assertions[i]);
  };
  if (reference_only) std::erase_if(keywords, [](const auto& one) { return one.first != "$ref"; });
  std::vector<bool> asserted(keywords.size());
  NormalForm siblings = any_form();
  const bool chooses =
      std::ranges::any_of(keywords, [](const auto& one) { return one.first == "oneOf" || one.first == "allOf"; });
  for (size_t i = 0; i < keywords.size() && !error_.has_value(); ++i) {
    asserted[i] = asserts(i);
    if (asserted[i] && chooses) siblings = intersect(siblings, assertions[i]);
  }
  for (size_t i = 0; i < keywords.size() && !error_.has_value(); ++i) {
    const auto& [keyword, argument] = keywords[i];
    NormalForm one = any_form();
    if (asserted[i]) {
      out = intersect(out, assertions[i]);
    } else if (applicator(schema, keyword, *argument, siblings, one) || reference(schema, keyword, *argument, one)) {
      out = intersect(out, one);
    }
  }
  if (!reference_only) unevaluated(schema, out);
  // OpenAPI 3.0's.
  if (declared_only_ && !reference_only && value.contains("nullable") && value["nullable"] == true) out.null = true;
  current_place_ = before;
  return out;
}

NormalForm Normalizer::value_form(const Json& value) {
  NormalForm out;
  switch (value.type()) {
    case Json::value_t::null:
      out.null = true;
      break;
    case Json::value_t::boolean:
      (value.get<bool>() ? out.yes : out.no) = true;
      break;
    case Json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      out.string = {text_.literal(text), false, true, false, std::vector{text}};
      break;
    }
    case Json::value_t::array: {
      ArrayForm array;
      for (const Json& item : value) array.prefix.push_back(constant_goal(item));
      array.rest = kNoValue;
      array.min = value.size();
      array.max = value.size();
      out.arrays.push_back(std::move(array));
      break;
    }
    case Json::value_t::object: {
      ObjectForm object;
      std::vector<RegexId> names;
      for (const auto& [name, member] : value.items()) {
        object.members.push_back({name, constant_goal(member), Member::Presence::kRequired, true});
        names.push_back(text_.literal(name));
      }
      const RegexId others =
          names.empty() ? text_.any_string() : text_.except(text_.canonical_string(), text_.pool().any_of(names));
      object.rules.push_back({others, kNoValue});
      out.objects.push_back(std::move(object));
      break;
    }
    default: {
      const std::optional<Decimal> number = read_decimal(number_text(value));
      if (number.has_value()) {
        out.number = {numbers_.equal(*number), false, true, false, std::vector{number->text()}};
      } else {
        const std::string text = number_text(value);
        out.number = {text_.pool().literal(text), false, false, false, std::vector{text}};
      }
    }
  }
  return out;
}

bool Normalizer::type_keyword(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out) {
  if (keyword == "enum" || (keyword == "const" && schema.place.draft >= Draft::k6)) {
    const bool list = keyword == "enum";
    if (list && !value.is_array()) return bad(schema, keyword, "a list of values");
    out = {};
    if (!list) {
      out = value_form(value);
      return true;
    }
    if (value.size() > kEnumValuesMax) {
      fail(Code::kTooLarge, schema.place, keyword, "more than " + std::to_string(kEnumValuesMax) + " values");
      return true;
    }
    NormalForm strings;
    std::vector<NormalForm> forms;
    std::vector<std::string> texts;
    for (const Json& one : value) {
      if (one.is_string()) {
        texts.push_back(one.get<std::string>());
      } else {
        forms.push_back(value_form(one));
      }
    }
    if (!texts.empty()) {
      const RegexId all = text_.literals(texts);
      strings.string = {all, false, true, false, std::move(texts)};
    }
    std::vector<const NormalForm*> all{&strings};
    for (const NormalForm& form : forms) all.push_back(&form);
    out = unite(all);
    return true;
  }
  if (keyword != "type") return false;
  const NormalForm any = any_form();
  out = {};
  const auto add = [&](const Json& one) {
    const std::string name = one.is_string() ? one.get<std::string>() : one.is_null() ? "null" : "";
    if (name == "null") {
      out.null = true;
    } else if (name == "boolean") {
      out.yes = out.no = true;
    } else if (name == "number") {
      out.number = any.number;
    } else if (name == "integer") {
      const bool written = schema.place.draft == Draft::k4;  // to which 1.0 is no integer
      const TextSet integers{written ? numbers_.written_integers() : numbers_.integers(), false, true, true};
      const TextSet* both[] = {&out.number, &integers};
      out.number = unite(both);
      if (out.number.text != numbers_.integers() && out.number.text != numbers_.written_integers())
        out.number = any.number;
    } else if (name == "string") {
      out.string = any.string;
    } else if (name == "array") {
      out.arrays = any.arrays;
    } else if (name == "object") {
      out.objects = any.objects;
    } else if ((declared_only_ || schema.place.draft == Draft::k4) && name == "any") {
      out = any;
    } else {
      bad(schema, "type", "one of array, boolean, integer, null, number, object and string, or a list of these");
    }
  };
  if (value.is_array()) {
    for (const Json& one : value) add(one);
  } else {
    add(value);
  }
  return true;
}

bool Normalizer::bound(const Schema& schema, std::string_view keyword, const Json& value, bool exclusive,
                       NormalForm& out) {
  if (!is_any_number(value)) return bad(schema, keyword, "a number");
  const bool lower = keyword == "minimum" || keyword == "exclusiveMinimum";
  const std::string text = number_text(value);
  const std::optional<Decimal> limit = read_decimal(text);
  if (!limit.has_value()) {  // farther from 0 than any number that is written, or nearer to it
    const bool negative = text.starts_with('-');
    const double size = std::abs(number_value(value));
    if (size >= kLeastMagnitude && size < kMostMagnitude) {
      fail(Code::kTooLarge, schema.place, keyword, "a number with more than 40 digits before or behind the point");
      return true;
    }
    if (size >= 1) {
      out.number = lower == negative ? TextSet{numbers_.plain(), false} : TextSet{};
    } else {
      const bool without_zero = lower != negative;
      out.number = {lower ? numbers_.at_least({}, without_zero) : numbers_.at_most({}, without_zero), false};
    }
    return true;
  }
  out.number = {lower ? numbers_.at_least(*limit, exclusive) : numbers_.at_most(*limit, exclusive), false};
  return true;
}

bool Normalizer::number_keyword(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out) {
  if (keyword == "minimum" || keyword == "maximum") {
    const char* other = keyword == "minimum" ? "exclusiveMinimum" : "exclusiveMaximum";
    const bool exclusive = schema.value.contains(other) && schema.value[other] == true;  // draft 4's
    return bound(schema, keyword, value, exclusive, out);
  }
  if (keyword == "exclusiveMinimum" || keyword == "exclusiveMaximum") {
    if (value.is_boolean()) return false;
    return bound(schema, keyword, value, true, out);
  }
  const bool old_divisor = keyword == "divisibleBy" && declared_only_;  // draft 3's
  if (keyword != "multipleOf" && !old_divisor) return false;
  const std::optional<Decimal> divisor = is_any_number(value) ? read_decimal(number_text(value)) : std::nullopt;
  if (!divisor.has_value() || divisor->zero() || divisor->negative) {
    if (is_any_number(value) && !divisor.has_value()) {
      fail(Code::kTooLarge, schema.place, keyword, "a divisor with more than 40 digits before or behind the point");
      return true;
    }
    return bad(schema, keyword, "a number above 0");
  }
  const Result<RegexId> multiples = numbers_.multiple_of(*divisor);
  if (!multiples.has_value()) {
    fail(multiples.error().code, schema.place, keyword, multiples.error().message);
    return true;
  }
  out.number = {*multiples, false};
  out.number.multiples = {*divisor, numbers_.plain()};
  return true;
}

std::optional<uint64_t> Normalizer::count(const Schema& schema, std::string_view keyword, const Json& value) {
  if (value.is_number_unsigned()) return std::min(value.get<uint64_t>(), kCountMax);
  if (value.is_number_float() && value.get<double>() >= 0 &&
      value.get<double>() == static_cast<double>(static_cast<int64_t>(std::min(value.get<double>(), 1e15)))) {
    return std::min(static_cast<uint64_t>(std::min(value.get<double>(), 1e15)), kCountMax);
  }
  if (is_any_number(value) && number_value(value) > 1e15) return kCountMax;
  bad(schema, keyword, "a whole number from 0 on");
  return std::nullopt;
}

bool Normalizer::string_keyword(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out) {
  if (keyword == "minLength" || keyword == "maxLength") {
    const std::optional<uint64_t> length = count(schema, keyword, value);
    if (!length.has_value()) return true;
    const bool unbounded = keyword == "maxLength" && *length >= kCountMax;
    const auto bounded = static_cast<uint32_t>(*length);
    out.string.text = keyword == "minLength" ? text_.length_between(bounded, std::nullopt)
                      : unbounded            ? text_.any_string()
                                             : text_.length_between(0, bounded);
    return true;
  }
  if (keyword == "pattern") {
    if (!value.is_string()) return bad(schema, keyword, "a regular expression");
    out.string = {key_pattern(schema.place, keyword, value.get<std::string>()), false};
    return true;
  }
  if (keyword != "format" || !assert_formats_ || !value.is_string()) return false;
  const std::optional<std::string> pattern = format_pattern(value.get<std::string>());
  if (!pattern.has_value()) return false;
  const Result<RegexId> strings = read_regex(text_.pool(), *pattern, {.spelling = text_.spelling()});
  if (!strings.has_value()) {
    fail(Code::kInternal, schema.place, keyword, strings.error().text());
    return true;
  }
  const auto& name = value.get_ref<const std::string&>();
  out.string = {*strings, false, name != "email" && name != "regex" && !name.starts_with("iri")};
  return true;
}

RegexId Normalizer::key_pattern(const SchemaPlace& place, std::string_view keyword, const std::string& pattern) {
  const auto known = patterns_.find(pattern);
  if (known != patterns_.end()) return known->second;
  const Result<RegexId> strings =
      read_regex(text_.pool(), pattern, {.match = RegexOptions::Match::kSearch, .spelling = text_.spelling()});
  if (!strings.has_value()) {
    fail(strings.error().code, place, keyword, strings.error().message);
    return kNoMatch;
  }
  patterns_.emplace(pattern, *strings);
  return *strings;
}

bool Normalizer::array_keyword(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out) {
  ArrayForm array;
  const auto tuple = [&](const Json& items) {
    for (const Json& item : items) array.prefix.push_back(goal_of(item));
    array.evaluated_prefix = items.size();
  };
  const Json* items = schema.value.contains("items") ? &schema.value["items"] : nullptr;
  const Json* prefix = schema.value.contains("prefixItems") ? &schema.value["prefixItems"] : nullptr;
  if (keyword == "prefixItems" && schema.place.draft >= Draft::k2020) {
    if (!value.is_array()) return bad(schema, keyword, "a list of schemas");
    tuple(value);
  } else if (keyword == "items" && value.is_array()) {
    if (prefix != nullptr) return bad(schema, keyword, "a schema beside prefixItems");
    tuple(value);
  } else if (keyword == "items") {
    if (prefix != nullptr && prefix->is_array() && schema.place.draft >= Draft::k2020) {
      array.prefix.resize(prefix->size(), kAnyValue);
    }
    array.rest = goal_of(value);
    array.evaluated_all = true;
  } else if (keyword == "additionalItems") {
    if (items == nullptr || !items->is_array()) return false;
    array.prefix.resize(items->size(), kAnyValue);
    array.rest = goal_of(value);
    array.evaluated_all = true;
  } else if (keyword == "minItems" || keyword == "maxItems") {
    const std::optional<uint64_t> bound = count(schema, keyword, value);
    if (!bound.has_value()) return true;
    if (keyword == "minItems") array.min = *bound;
    if (keyword == "maxItems" && *bound < kCountMax) array.max = bound;
  } else if (keyword == "uniqueItems") {
    if (!value.is_boolean()) return bad(schema, keyword, "true or false");
    array.unique = value.get<bool>();
  } else if (keyword == "contains" && schema.place.draft >= Draft::k6) {
    Contains contains{.goal = goal_of(value)};
    if (schema.place.draft >= Draft::k2019) {
      if (schema.value.contains("minContains"))
        contains.min = count(schema, "minContains", schema.value["minContains"]).value_or(1);
      if (schema.value.contains("maxContains"))
        contains.max = count(schema, "maxContains", schema.value["maxContains"]);
    }
    if (schema.place.draft >= Draft::k2020) array.evaluated_contains.push_back(contains.goal);
    array.contains.push_back(contains);
  } else {
    return false;
  }
  for (size_t i = 0; i < array.prefix.size(); ++i) {
    if (array.prefix[i] == kNoValue && (!array.max.has_value() || *array.max > i)) array.max = i;
  }
  if (array.rest == kNoValue && !array.max.has_value()) array.max = array.prefix.size();
  out = array_only(std::move(array));
  return true;
}

}  // namespace cairn::grammar
