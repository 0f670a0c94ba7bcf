#include "api/serialization/json_text.h"

#include <nlohmann/json.hpp>
#include <utility>

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

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string sse_event(const ordered_json& value) { return "data: " + dump(value) + "\n\n"; }

}  // namespace cairn::api
