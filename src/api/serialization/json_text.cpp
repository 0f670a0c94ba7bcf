#include "api/serialization/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/json.h"

namespace cairn::api {

using nlohmann::ordered_json;

void JsonList::add(const ordered_json& item) {
  if (!items_.empty()) items_ += ',';
  items_ += dump(item);
}

std::string JsonList::take() {
  std::string list = std::exchange(items_, {});
  list.insert(0, 1, '[');
  list += ']';
  return list;
}

std::string with_member(std::string object, std::string_view name, std::string_view value) {
  object.pop_back();
  if (object.size() > 1) object += ',';
  object.append("\"").append(name).append("\":").append(value).append("}");
  return object;
}

std::string with_members(std::string object, const ordered_json& more) {
  for (const auto& [name, value] : more.items()) object = with_member(std::move(object), name, dump(value));
  return object;
}

std::string dump(const ordered_json& value) { return cairn::json_text(value); }

std::string sse_event(const ordered_json& value) { return "data: " + dump(value) + "\n\n"; }

std::string with_warnings(std::string body, std::string_view warnings) {
  const size_t end = body.rfind('}');
  if (warnings.empty() || end == std::string::npos) return body;
  const bool has_members = end > 0 && body[end - 1] != '{';
  std::string member = has_members ? "," : "";
  member.append(R"("warnings":)").append(warnings);
  body.insert(end, member);
  return body;
}

bool add_to_first_event(std::string& bytes, std::string_view warnings) {
  const size_t begin = bytes.find('{');
  if (begin == std::string::npos) return false;
  const size_t line_end = std::min(bytes.find('\n', begin), bytes.size());
  bytes.replace(begin, line_end - begin, with_warnings(bytes.substr(begin, line_end - begin), warnings));
  return true;
}

}  // namespace cairn::api
