#include "api/params/request_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/serialization/json_text.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/utf8.h"

namespace cairn::api {
using nlohmann::ordered_json;

namespace {

// The name as it is, or quoted where that would not be seen for a name.
std::string shown_name(std::string_view name) {
  const bool plain =
      !name.empty() && std::ranges::none_of(name, [](char c) { return c <= ' ' || c == '"' || c == 0x7f; });
  return plain ? printable(name) : fmt::format("\"{}\"", printable(name));
}

}  // namespace

bool is_token_id(const ordered_json& value) {
  return value.is_number_integer() && value.get<double>() >= 0 &&
         value.get<double>() <= std::numeric_limits<int32_t>::max();
}

std::string_view json_kind(const ordered_json& value) {
  switch (value.type()) {
    case ordered_json::value_t::null:
      return "null";
    case ordered_json::value_t::object:
      return "an object";
    case ordered_json::value_t::array:
      return "an array";
    case ordered_json::value_t::string:
      return "a string";
    case ordered_json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

// Fields whose numbers keep all their digits: schemas, and what templates show to a model. Others mean doubles.
constexpr std::string_view kExactFields[] = {"messages",
                                             "input",
                                             "tools",
                                             "functions",
                                             "response_format",
                                             "text",
                                             "format",
                                             "json_schema",
                                             "guided_json",
                                             "output_config",
                                             "output_format",
                                             "structured_outputs",
                                             "chat_template_kwargs"};

Result<ordered_json> parse_object(std::string_view body) {
  if (const size_t valid = utf8_valid_prefix(body); valid != body.size()) {
    return fail(Code::kInvalidArgument, "the request body is not valid UTF-8 at byte {}", valid);
  }
  auto value = read_json(body);
  if (!value) return fail(value.error().code, "the request body {}", cut_text(value.error().message, kEchoBytesMax));
  if (!value->is_object()) {
    return fail(Code::kInvalidArgument, "the request body must be a JSON object, not {}", json_kind(*value));
  }
  for (auto member = value->begin(); member != value->end(); ++member)
    if (std::ranges::find(kExactFields, member.key()) == std::end(kExactFields)) round_numbers(member.value());
  return value;
}

std::string quoted_value(const ordered_json& value) {
  return value.is_string() || value.is_number() ? cut_text(dump(value), kQuotedBytesMax)
                                                : std::string(json_kind(value));
}

std::unexpected<Error> invalid_field(const std::string& path, std::string_view what) {
  return fail_at(path, Code::kInvalidArgument, "{} {}", path, what);
}

RequestFields::RequestFields(RequestContext& context, const ordered_json& object, std::string path)
    : context_(context), object_(object), path_(std::move(path)) {}

void RequestFields::note(std::string_view name, FieldUse use) const {
  if (FieldAudit* audit = context_.audit()) audit->note(path_of(name), use);
}

const ordered_json* RequestFields::get(std::string_view name) {
  known_.emplace(name);
  note(name, FieldUse::kHonoured);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const ordered_json* RequestFields::object(std::string_view name) {
  const ordered_json* value = get(name);
  if (value == nullptr || value->is_object()) return value;
  reject(name, fmt::format("must be an object, not {}", json_kind(*value)));
  return nullptr;
}

bool RequestFields::boolean(std::string_view name, bool fallback) {
  const ordered_json* value = get(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  reject(name, fmt::format("must be true or false, not {}", json_kind(*value)));
  return fallback;
}

std::optional<int64_t> RequestFields::optional_integer(std::string_view name, int64_t low, int64_t high) {
  const ordered_json* value = get(name);
  if (value == nullptr) return std::nullopt;
  const bool whole = value->is_number_integer() ||
                     (value->is_number_float() && std::trunc(value->get<double>()) == value->get<double>());
  if (!whole) {
    reject(name, fmt::format("must be an integer, not {}",
                             value->is_number() ? std::string_view("a fraction") : json_kind(*value)));
    return std::nullopt;
  }
  // It is read as a double first: a number beyond 64 bits must be refused, not wrapped.
  const auto wide = value->get<double>();
  if (wide < static_cast<double>(low) || wide > static_cast<double>(high)) {
    reject(name, fmt::format("must be from {} to {}, not {}", low, high, value->dump()));
    return std::nullopt;
  }
  if (value->is_number_unsigned()) return static_cast<int64_t>(value->get<uint64_t>());
  return value->is_number_float() ? static_cast<int64_t>(wide) : value->get<int64_t>();
}

int64_t RequestFields::integer(std::string_view name, int64_t fallback, int64_t low, int64_t high) {
  return optional_integer(name, low, high).value_or(fallback);
}

int64_t RequestFields::integer_alias(std::string_view name, std::string_view alias, int64_t fallback, int64_t low,
                                     int64_t high) {
  const auto first = optional_integer(name, low, high);
  const auto second = optional_integer(alias, low, high);
  if (first && second && *first != *second) reject(alias, fmt::format("contradicts {}", name));
  return first ? *first : second.value_or(fallback);
}

double RequestFields::number(std::string_view name, double fallback, double low, double high) {
  const ordered_json* value = get(name);
  if (value == nullptr) return fallback;
  if (!value->is_number()) {
    reject(name, fmt::format("must be a number, not {}", json_kind(*value)));
    return fallback;
  }
  const auto number = value->get<double>();
  if (!(number >= low && number <= high)) {
    reject(name, fmt::format("must be from {} to {}, not {}", low, high, value->dump()));
    return fallback;
  }
  return number;
}

std::string RequestFields::string(std::string_view name, std::string_view fallback) {
  const ordered_json* value = get(name);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  reject(name, fmt::format("must be a string, not {}", json_kind(*value)));
  return std::string(fallback);
}

void RequestFields::accept(std::initializer_list<std::string_view> names) {
  for (const auto name : names) accept(name, "");
}

void RequestFields::accept(std::string_view name, std::string_view why) {
  if (known_.contains(name)) return;
  note(name, FieldUse::kIgnored);
  if (get(name) == nullptr) return;
  tell(name, why.empty() ? "has no effect here" : fmt::format("has no effect here: {}", why));
}

void RequestFields::only_if(std::string_view name, FunctionRef<bool(const ordered_json&)> neutral,
                            std::string_view why) {
  const ordered_json* value = get(name);
  if (value != nullptr && !neutral(*value)) refuse(name, why);
  note(name, FieldUse::kNeutral);
}

void RequestFields::only(std::string_view name, const ordered_json& neutral, std::string_view why) {
  only_if(name, [&](const ordered_json& value) { return value == neutral; }, why);
}

void RequestFields::only_empty(std::string_view name, std::string_view why) {
  const auto is_empty = [](const ordered_json& value) {
    if (value.is_string()) return value.get_ref<const std::string&>().empty();
    return value == false || ((value.is_array() || value.is_object()) && value.empty());
  };
  only_if(name, is_empty, why);
}

void RequestFields::tell(std::string_view name, std::string_view what) const {
  const std::string path = path_of(name);
  context_.note_ignored(path, fmt::format("{} {}", path, what));
}

void RequestFields::refuse(std::string_view name, std::string_view why) {
  note(name, FieldUse::kRefused);
  if (get(name) != nullptr && !error_) {
    error_ = Error{Code::kUnsupported, fmt::format("{} is not supported: {}", path_of(name), why), path_of(name)};
  }
}

void RequestFields::reject(std::string_view name, std::string what) {
  if (!error_) error_ = Error{Code::kInvalidArgument, path_of(name) + " " + what, path_of(name)};
}

Result<void> RequestFields::finish() {
  if (path_.empty() && boolean("warnings", false)) context_.want_warnings();
  if (error_) return std::unexpected(*error_);
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name) || value.is_null()) continue;
    const std::string shown = shown_name(name);
    if (context_.strict_fields()) {
      return fail_at(path_of(shown), Code::kInvalidArgument, "{} is not a known field of this endpoint",
                     path_of(shown));
    }
    tell(shown, "is not a field that this endpoint knows: it is ignored");
  }
  return {};
}

}  // namespace cairn::api
