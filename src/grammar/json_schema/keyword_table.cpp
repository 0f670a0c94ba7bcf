#include "grammar/json_schema/keyword_table.h"

#include <algorithm>
#include <ranges>

namespace cairn::grammar {

namespace {

constexpr KeywordNote kKeywordTable[] = {
    {"type", "all", "exactly"},
    {"enum", "all",
     "exactly; at most 100,000 values, including at most 2,000 lists and 2,000 objects, written as they are listed"},
    {"const", "6 and later", "exactly"},
    {"minimum, maximum, exclusiveMinimum, exclusiveMaximum", "all",
     "exactly; numbers have at most 40 digits before and after the point, and with a bound no exponent other than 0"},
    {"multipleOf", "all",
     "exactly, using the remainder; divisors, or the common multiple of several, are at most 100,000 in units of "
     "their last place, and less if they have more than eight places"},
    {"minLength, maxLength", "all", "exactly, in characters"},
    {"pattern", "all",
     "exactly, as defined by ECMA-262; rejected: Changes_When_NFKC_Casefolded, properties of strings, "
     "back-references, lookbehinds of more than one character, most assertions within unbounded repetition"},
    {"format", "all",
     "date, time, date-time, duration, email, hostname, ipv4, ipv6, uuid, uri, uri-reference, iri, iri-reference, "
     "uri-template, json-pointer, relative-json-pointer, regex (roughly); others have no effect"},
    {"items", "all", "exactly"},
    {"prefixItems", "2020-12", "exactly"},
    {"additionalItems", "up to 2019-09", "exactly"},
    {"minItems, maxItems", "all", "exactly"},
    {"uniqueItems", "all",
     "exactly for strings, numbers, booleans and null; rejected if items may be lists or objects, or together "
     "with prefixItems or contains"},
    {"contains", "6 and later", "exactly; at most three conditions and 20,000 states"},
    {"minContains, maxContains", "2019-09 and later", "exactly"},
    {"properties", "all", "exactly; keys are written in this order, unless any order is requested"},
    {"patternProperties", "all", "exactly; keys fall into at most 200 classes"},
    {"additionalProperties", "all", "exactly"},
    {"propertyNames", "6 and later", "exactly"},
    {"required", "all", "exactly"},
    {"minProperties, maxProperties", "all", "undeclared keys count as one towards minProperties"},
    {"dependencies", "up to 7", "exactly"},
    {"dependentRequired, dependentSchemas", "2019-09 and later", "exactly"},
    {"allOf, anyOf", "all", "exactly, as intersection and union; at most 2,000 alternatives for one value"},
    {"oneOf", "all", "exactly; overlapping branches are separated by complements, which may be rejected"},
    {"not", "all", "exactly; rejected for uniqueItems, unevaluated keywords and formats that are not enforced exactly"},
    {"if, then, else", "7 and later", "exactly, like not"},
    {"unevaluatedProperties, unevaluatedItems", "2019-09 and later", "exactly; at most six branches in an anyOf"},
    {"$ref", "all", "within the document, and to documents that are supplied; nothing is fetched"},
    {"$id, $anchor, $defs, definitions", "all", "as needed by references; id in draft 4"},
    {"$dynamicRef, $dynamicAnchor, $recursiveRef, $recursiveAnchor", "2019-09 and later",
     "if only one schema can be meant"},
    {"title, description, default, examples, deprecated, readOnly, writeOnly, contentEncoding, contentMediaType, "
     "contentSchema, $comment, $vocabulary",
     "all", "no effect on values, like unknown keywords"},
};

/// The rows from here on have no effect on values by themselves.
constexpr std::string_view kFirstOfNoValues = "$id, $anchor, $defs, definitions";

bool lists(const KeywordNote& note, std::string_view name) {
  const size_t at = note.keywords.find(name);
  if (name.empty() || at == std::string_view::npos) return false;
  for (const auto part : std::views::split(note.keywords, std::string_view(", ")))
    if (std::string_view(part) == name) return true;
  return false;
}

}  // namespace

std::span<const KeywordNote> keyword_table() { return kKeywordTable; }

bool is_keyword(std::string_view name) {
  return name == "$schema" || name == "id" ||
         std::ranges::any_of(kKeywordTable, [&](const KeywordNote& note) { return lists(note, name); });
}

bool binds_values(std::string_view name) {
  if (name.starts_with("$dynamicRef") || name == "$recursiveRef") return true;
  for (const KeywordNote& note : kKeywordTable) {
    if (note.keywords == kFirstOfNoValues) return false;
    if (lists(note, name)) return true;
  }
  return false;
}

}  // namespace cairn::grammar
