/// Types of parameters from a request's tools, for formats that do not write a value's type.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cairn::chat::tool_call {

enum class ValueKind : uint8_t {
  kString,
  kStringOrNull,
  kOther,    ///< a type that is not a string
  kUnknown,  ///< parsed as JSON if it is valid JSON, else a string
};

class ToolSchemas {
 public:
  ToolSchemas() = default;
  /// `tools` in OpenAI's shape; parts that do not have it are ignored.
  explicit ToolSchemas(const nlohmann::ordered_json& tools);

  /// Whether there is a tool of this name, or no tools are known at all.
  bool may_name(std::string_view function) const;
  /// Whether there is a tool of this name: then it is read as it is, whatever its characters.
  bool has(std::string_view function) const { return functions_.contains(function); }
  /// Whether there is a tool whose name begins so.
  bool begins_name(std::string_view beginning) const;
  ValueKind kind(std::string_view function, std::string_view parameter) const;

 private:
  std::map<std::string, std::map<std::string, ValueKind, std::less<>>, std::less<>> functions_;
};

}  // namespace cairn::chat::tool_call
