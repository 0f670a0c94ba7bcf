/// JSON values as text, whole or as they grow.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cairn::api {

/// An array that is written down as it grows: as a document it would take many times its text.
class JsonList {
 public:
  bool empty() const { return items_.empty(); }
  void add(const nlohmann::ordered_json& item);
  /// "[...]"; empty again afterwards.
  std::string take();

 private:
  std::string items_;
};

/// The text of an object with one more member: `value` is JSON text.
std::string with_member(std::string object, std::string_view name, std::string_view value);
/// Text for the wire: ill-formed UTF-8 in strings becomes U+FFFD, nothing is escaped that need not be.
std::string dump(const nlohmann::ordered_json& value);
/// One server-sent event without a name.
std::string sse_event(const nlohmann::ordered_json& value);

}  // namespace cairn::api
