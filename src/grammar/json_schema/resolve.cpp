#include "grammar/json_schema/resolve.h"

#include <algorithm>
#include <utility>

namespace cairn::grammar {

namespace {

using Json = nlohmann::ordered_json;

struct Uri {
  std::string scheme, authority, path, query, fragment;
  bool has_authority = false, has_query = false, has_fragment = false;

  static Uri read(std::string_view text) {
    Uri uri;
    if (const size_t at = text.find('#'); at != std::string_view::npos) {
      uri.has_fragment = true;
      uri.fragment = text.substr(at + 1);
      text = text.substr(0, at);
    }
    if (const size_t at = text.find('?'); at != std::string_view::npos) {
      uri.has_query = true;
      uri.query = text.substr(at + 1);
      text = text.substr(0, at);
    }
    const size_t colon = text.find(':');
    if (colon != std::string_view::npos && colon > 0 && colon < text.find('/')) {
      uri.scheme = text.substr(0, colon);
      text = text.substr(colon + 1);
    }
    if (text.starts_with("//")) {
      const size_t end = std::min(text.find('/', 2), text.size());
      uri.has_authority = true;
      uri.authority = text.substr(2, end - 2);
      text = text.substr(end);
    }
    uri.path = text;
    return uri;
  }

  std::string text() const {
    std::string out = scheme.empty() ? "" : scheme + ":";
    if (has_authority) out += "//" + authority;
    out += path;
    if (has_query) out += "?" + query;
    if (has_fragment) out += "#" + fragment;
    return out;
  }
};

std::string without_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  const bool absolute = path.starts_with('/');
  bool folder = false;
  while (!path.empty()) {
    if (path.starts_with('/')) path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    path = path.substr(end);
    folder = part == "." || part == "..";
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (part != ".") {
      parts.push_back(part);
    }
  }
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 || absolute) out += '/';
    out += parts[i];
  }
  if (folder) out += '/';
  return out;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  const auto value = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && value(text[i + 1]) >= 0 && value(text[i + 2]) >= 0) {
      out += static_cast<char>(value(text[i + 1]) * 16 + value(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::pair<std::string, std::string> split_fragment(const std::string& uri) {
  const size_t at = uri.find('#');
  if (at == std::string::npos) return {uri, ""};
  return {uri.substr(0, at), uri.substr(at + 1)};
}

const std::string* text_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? &found->get_ref<const std::string&>() : nullptr;
}

/// How a keyword holds schemas.
enum class Holds { kNothing, kSchema, kList, kMap, kSchemaOrList, kMapOrLists };

Holds holds(std::string_view keyword) {
  static const std::map<std::string_view, Holds> kHolds{
      {"additionalItems", Holds::kSchema},
      {"additionalProperties", Holds::kSchema},
      {"contains", Holds::kSchema},
      {"contentSchema", Holds::kSchema},
      {"else", Holds::kSchema},
      {"if", Holds::kSchema},
      {"not", Holds::kSchema},
      {"propertyNames", Holds::kSchema},
      {"then", Holds::kSchema},
      {"unevaluatedItems", Holds::kSchema},
      {"unevaluatedProperties", Holds::kSchema},
      {"allOf", Holds::kList},
      {"anyOf", Holds::kList},
      {"oneOf", Holds::kList},
      {"prefixItems", Holds::kList},
      {"$defs", Holds::kMap},
      {"definitions", Holds::kMap},
      {"dependentSchemas", Holds::kMap},
      {"patternProperties", Holds::kMap},
      {"properties", Holds::kMap},
      {"items", Holds::kSchemaOrList},
      {"dependencies", Holds::kMap},
  };
  const auto found = kHolds.find(keyword);
  return found == kHolds.end() ? Holds::kNothing : found->second;
}

}  // namespace

std::optional<Draft> draft_of(std::string_view uri) {
  while (uri.ends_with('#')) uri.remove_suffix(1);
  if (uri.find("draft-04") != std::string_view::npos) return Draft::k4;
  if (uri.find("draft-06") != std::string_view::npos) return Draft::k6;
  if (uri.find("draft-07") != std::string_view::npos) return Draft::k7;
  if (uri.find("2019-09") != std::string_view::npos) return Draft::k2019;
  if (uri.find("2020-12") != std::string_view::npos) return Draft::k2020;
  return std::nullopt;
}

std::string resolve_uri(std::string_view base_text, std::string_view reference) {
  const Uri base = Uri::read(base_text);
  Uri uri = Uri::read(reference);
  if (!uri.scheme.empty()) return uri.text();
  uri.scheme = base.scheme;
  if (uri.has_authority) return uri.text();
  uri.has_authority = base.has_authority;
  uri.authority = base.authority;
  if (uri.path.empty()) {
    uri.path = base.path;
    if (!uri.has_query) {
      uri.has_query = base.has_query;
      uri.query = base.query;
    }
  } else if (!uri.path.starts_with('/') && (base.has_authority || !base.path.empty()) && base.scheme != "urn") {
    const size_t slash = base.path.rfind('/');
    const std::string folder =
        slash == std::string::npos ? (base.has_authority ? "/" : "") : base.path.substr(0, slash + 1);
    uri.path = without_dots(folder + uri.path);
  } else {
    uri.path = without_dots(uri.path);
  }
  return uri.text();
}

std::string pointer_token(std::string_view name) {
  std::string out = "/";
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

Result<void> SchemaIndex::add(const Json& document, std::string uri, Draft draft) {
  std::vector<std::pair<const Json*, int>> measured{{&document, 0}};
  while (!measured.empty()) {
    const auto [value, depth] = measured.back();
    measured.pop_back();
    if (++nodes_ > kNodesMax) return fail(Code::kTooLarge, "a schema of more than {} values", kNodesMax);
    if (depth > kDepthMax) return fail(Code::kTooLarge, "a schema nested deeper than {} levels", kDepthMax);
    for (const Json& child : *value) {
      if (value->is_structured()) measured.emplace_back(&child, depth + 1);
    }
  }
  resources_.emplace(uri, &document);
  std::vector<Step> open{{&document, {&document, std::move(uri), "", draft, &document}, true, 0}};
  while (!open.empty()) {
    const Step step = std::move(open.back());
    open.pop_back();
    visit(step, open);
  }
  return {};
}

void SchemaIndex::identify(const Json& schema, SchemaPlace& place) {
  const bool old = place.draft <= Draft::k7;
  if (const std::string* uri = text_member(schema, "$schema")) place.draft = draft_of(*uri).value_or(place.draft);
  const std::string* id = text_member(schema, place.draft == Draft::k4 ? "id" : "$id");
  // Up to draft 7 a schema with $ref has no other keywords.
  if (id != nullptr && !(old && schema.contains("$ref"))) {
    const auto [base, fragment] = split_fragment(resolve_uri(place.base, *id));
    if (!id->starts_with('#')) {
      place.base = base;
      resources_.emplace(base, &schema);
    }
    if (!fragment.empty() && !fragment.starts_with('/')) anchors_.emplace(place.base + "#" + fragment, &schema);
  }
  if (const std::string* anchor = text_member(schema, "$anchor")) anchors_.emplace(place.base + "#" + *anchor, &schema);
  if (const std::string* anchor = text_member(schema, "$dynamicAnchor")) {
    anchors_.emplace(place.base + "#" + *anchor, &schema);
    dynamic_[*anchor].push_back(&schema);
  }
  const auto recursive = schema.find("$recursiveAnchor");
  if (recursive != schema.end() && *recursive == true) recursive_.push_back(&schema);
}

void SchemaIndex::visit(const Step& step, std::vector<Step>& open) {
  if (!step.schema || !(step.value->is_object() || step.value->is_boolean()) || places_.contains(step.value)) return;
  SchemaPlace place = step.place;
  place.value = step.value;
  if (step.value->is_object()) identify(*step.value, place);
  places_.emplace(step.value, place);
  if (!step.value->is_object()) return;
  const auto push = [&](const Json& value, const std::string& pointer) {
    SchemaPlace inner{&value, place.base, place.pointer + pointer, place.draft, place.document};
    open.push_back({&value, std::move(inner), true, step.depth + 1});
  };
  for (const auto& [keyword, value] : step.value->items()) {
    const Holds kind = holds(keyword);
    const std::string pointer = pointer_token(keyword);
    if (kind == Holds::kSchema || (kind == Holds::kSchemaOrList && !value.is_array())) {
      push(value, pointer);
    } else if (value.is_array() && (kind == Holds::kList || kind == Holds::kSchemaOrList)) {
      for (size_t i = 0; i < value.size(); ++i) push(value[i], pointer + "/" + std::to_string(i));
    } else if (value.is_object() && kind == Holds::kMap) {
      for (const auto& [name, child] : value.items()) push(child, pointer + pointer_token(name));
    }
  }
}

void SchemaIndex::adopt(const Json& value, const SchemaPlace& context, std::string pointer) {
  SchemaPlace place{&value, context.base, std::move(pointer), context.draft, context.document};
  std::vector<Step> open{{&value, std::move(place), true, 0}};
  while (!open.empty()) {
    const Step step = std::move(open.back());
    open.pop_back();
    visit(step, open);
  }
}

const Json* SchemaIndex::follow(const Json& root, std::string_view pointer) {
  const Json* value = &root;
  SchemaPlace context = places_.at(&root);
  for (int steps = 0; !pointer.empty(); ++steps) {
    if (!pointer.starts_with('/') || steps > kPointerStepsMax) return nullptr;
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    std::string token;
    for (size_t i = 1; i < end; ++i) {
      if (pointer[i] == '~' && i + 1 < end && (pointer[i + 1] == '0' || pointer[i + 1] == '1')) {
        token += pointer[++i] == '0' ? '~' : '/';
      } else {
        token += pointer[i];
      }
    }
    pointer = pointer.substr(end);
    if (value->is_array()) {
      const bool number =
          !token.empty() && token.size() < 8 && token.find_first_not_of("0123456789") == std::string::npos;
      const size_t index = number ? std::stoul(token) : value->size();
      if (index >= value->size()) return nullptr;
      value = &(*value)[index];
    } else if (value->is_object() && value->contains(token)) {
      value = &value->at(token);
    } else {
      return nullptr;
    }
    context.pointer += pointer_token(token);
    if (const auto known = places_.find(value); known != places_.end()) context = known->second;
  }
  if (!value->is_object() && !value->is_boolean()) return nullptr;
  if (!places_.contains(value)) adopt(*value, context, context.pointer);
  return value;
}

const Json* SchemaIndex::find(const SchemaPlace& from, std::string_view reference) {
  const auto [base, fragment] = split_fragment(resolve_uri(from.base, reference));
  const auto resource = resources_.find(base);
  if (resource == resources_.end()) return nullptr;
  const std::string decoded = percent_decoded(fragment);
  if (decoded.empty()) return resource->second;
  if (decoded.starts_with('/')) {
    const Json* found = follow(*resource->second, decoded);
    if (found != nullptr || !reference.starts_with('#') || from.document == nullptr) return found;
    return follow(*from.document, decoded);
  }
  const auto anchor = anchors_.find(base + "#" + decoded);
  return anchor == anchors_.end() ? nullptr : anchor->second;
}

const Json* SchemaIndex::find_dynamic(const SchemaPlace& from, std::string_view reference, bool& ambiguous) {
  const Json* target = find(from, reference);
  if (target == nullptr || !target->is_object()) return target;
  const std::string* anchor = text_member(*target, "$dynamicAnchor");
  const std::string fragment = split_fragment(std::string(reference)).second;
  if (anchor != nullptr && *anchor == fragment) ambiguous = dynamic_[*anchor].size() > 1;
  return target;
}

const Json* SchemaIndex::find_recursive(const SchemaPlace& from, bool& ambiguous) {
  const Json* target = find(from, "#");
  if (target != nullptr && std::ranges::find(recursive_, target) != recursive_.end()) ambiguous = recursive_.size() > 1;
  return target;
}

}  // namespace cairn::grammar
