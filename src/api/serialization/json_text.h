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
/// The same with all members of `more`, an object.
std::string with_members(std::string object, const nlohmann::ordered_json& more);
/// Text for the wire: ill-formed UTF-8 in strings becomes U+FFFD, nothing is escaped that need not be.
std::string dump(const nlohmann::ordered_json& value);
/// One server-sent event without a name.
std::string sse_event(const nlohmann::ordered_json& value);

/// `body`, the text of a JSON object or of an array of them, with "warnings" as the last member of the (last) object.
/// `warnings`: a JSON array, as RequestContext::wanted_warnings gives it; empty: the body as it is.
std::string with_warnings(std::string body, std::string_view warnings);
/// The same for a stream's first event, server-sent or a line; false: the bytes have none.
bool add_to_first_event(std::string& bytes, std::string_view warnings);

}  // namespace cairn::api
