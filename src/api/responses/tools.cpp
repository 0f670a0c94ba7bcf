#include "api/responses/tools.h"

#include <algorithm>

#include "api/chat/messages.h"
#include "api/params/request_fields.h"
#include "base/text/printable.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

bool is(const ordered_json& object, std::string_view name, std::string_view text) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() && found->get_ref<const std::string&>() == text;
}

bool is_true(const ordered_json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

Result<std::string> tool_name(const ordered_json& tool, const std::string& path) {
  const auto name = tool.find("name");
  if (const std::string fault = tool_name_fault(name == tool.end() ? ordered_json() : *name); !fault.empty())
    return invalid_field(path + ".name", fault);
  return name->get<std::string>();
}

// Many templates print it unasked, so that it is there in any case.
Result<std::string> tool_description(const ordered_json& tool, const std::string& path) {
  const auto description = tool.find("description");
  if (description == tool.end() || description->is_null()) return std::string();
  if (!description->is_string()) return invalid_field(path + ".description", "must be a string");
  return description->get<std::string>();
}

Result<ordered_json> tool_parameters(const ordered_json& tool, const std::string& path) {
  const auto parameters = tool.find("parameters");
  if (parameters == tool.end() || parameters->is_null()) {
    for (const auto* other : {"input_schema", "inputSchema", "schema"})
      if (tool.contains(other) && tool[other].is_object())
        return invalid_field(path + ".parameters", fmt::format("is missing: the schema in {} belongs there", other));
    return ordered_json{{"type", "object"}, {"properties", ordered_json::object()}};
  }
  if (!parameters->is_object())
    return invalid_field(path + ".parameters", fmt::format("must be an object, not {}", json_kind(*parameters)));
  return *parameters;
}

ordered_json function_json(std::string name, std::string description, ordered_json parameters) {
  return {
      {"type", "function"},
      {"function",
       {{"name", std::move(name)}, {"description", std::move(description)}, {"parameters", std::move(parameters)}}}};
}

/// Reads the tools of one list.
class Reader {
 public:
  explicit Reader(bool loads_later) : loads_later_(loads_later) {}
  Result<void> read(const ordered_json& tools, const std::string& path, const std::string& name_space);
  ToolList take() { return std::move(list_); }

 private:
  Result<void> read_tool(const ordered_json& tool, const std::string& path, const std::string& name_space);
  Result<void> read_namespace(const ordered_json& tool, const std::string& path);
  Result<void> read_custom(const ordered_json& tool, const std::string& path);
  Result<void> read_search(const ordered_json& tool, const std::string& path);
  Result<void> offer(OfferedTool tool, std::string description, ordered_json parameters, const std::string& path,
                     bool strict = false);

  bool loads_later_;  // a search of the client finds what is to be loaded later
  ToolList list_;
};

Result<void> Reader::offer(OfferedTool tool, std::string description, ordered_json parameters, const std::string& path,
                           bool strict) {
  if (list_.functions.size() == kToolsMax)
    return fail_at(path, Code::kTooLarge, "{} is over the {} tools of a request", path, kToolsMax);
  std::string name = offered_name(tool.name_space, tool.name);
  if (!list_.offered.emplace(name, std::move(tool)).second)
    return invalid_field(path + ".name", fmt::format("{} is the name of another tool", quoted_value(name)));
  list_.functions.push_back(function_json(std::move(name), std::move(description), std::move(parameters)));
  if (strict) list_.functions.back()["function"]["strict"] = true;
  return {};
}

// The grammar of its input is told to the model, and kept.
Result<void> Reader::read_custom(const ordered_json& tool, const std::string& path) {
  CAIRN_TRY(std::string name, tool_name(tool, path));
  CAIRN_TRY(std::string description, tool_description(tool, path));
  const auto format = tool.find("format");
  if (format != tool.end() && format->is_object() && is(*format, "type", "grammar")) {
    const auto text = [&](std::string_view field) {
      const auto value = format->find(field);
      return value != format->end() && value->is_string() ? value->get<std::string>() : std::string();
    };
    description += fmt::format("{}The input must match this {} grammar:\n{}", description.empty() ? "" : "\n\n",
                               text("syntax"), text("definition"));
  }
  CAIRN_TRY(list_.custom_inputs[name], custom_call_input(tool, path));
  ordered_json parameters = {
      {"type", "object"},
      {"properties", {{kCustomInput, {{"type", "string"}, {"description", "The whole input of the tool, as text"}}}}},
      {"required", {kCustomInput}}};
  return offer({ToolKind::kCustom, {}, std::move(name)}, std::move(description), std::move(parameters), path);
}

Result<void> Reader::read_search(const ordered_json& tool, const std::string& path) {
  CAIRN_TRY(std::string description, tool_description(tool, path));
  if (description.empty()) description = "Finds more tools; those that it finds can be called then.";
  CAIRN_TRY(ordered_json parameters, tool_parameters(tool, path));
  if (!tool.contains("parameters") || tool["parameters"].is_null())
    parameters = {{"type", "object"}, {"properties", {{"query", {{"type", "string"}}}}}, {"required", {"query"}}};
  return offer({ToolKind::kSearch, {}, std::string(kToolSearch)}, std::move(description), std::move(parameters), path);
}

Result<void> Reader::read_namespace(const ordered_json& tool, const std::string& path) {
  CAIRN_TRY(const std::string name, tool_name(tool, path));
  const auto tools = tool.find("tools");
  if (tools == tool.end() || tools->is_null()) return {};
  return read(*tools, path + ".tools", name);
}

Result<void> Reader::read_tool(const ordered_json& tool, const std::string& path, const std::string& name_space) {
  if (!tool.is_object()) return invalid_field(path, fmt::format("must be an object, not {}", json_kind(tool)));
  if (!tool.contains("type") || !tool["type"].is_string())
    return invalid_field(path + ".type", "is missing or no string");
  if (tool["type"] == "function") {
    CAIRN_TRY(std::string name, tool_name(tool, path));
    CAIRN_TRY(std::string description, tool_description(tool, path));
    CAIRN_TRY(ordered_json parameters, tool_parameters(tool, path));
    if (loads_later_ && is_true(tool, "defer_loading")) return {};
    return offer({ToolKind::kFunction, name_space, std::move(name)}, std::move(description), std::move(parameters),
                 path, is_true(tool, "strict"));
  }
  if (name_space.empty()) {
    if (tool["type"] == "namespace") return read_namespace(tool, path);
    if (tool["type"] == "custom") return read_custom(tool, path);
    if (tool["type"] == kToolSearch && is(tool, "execution", "client")) return read_search(tool, path);
  }
  list_.left_out.insert(cut_text(tool["type"].get_ref<const std::string&>(), kQuotedBytesMax));
  return {};
}

Result<void> Reader::read(const ordered_json& tools, const std::string& path, const std::string& name_space) {
  if (!tools.is_array() || tools.size() > kToolsMax)
    return invalid_field(path, fmt::format("must be an array of at most {} tools", kToolsMax));
  for (size_t i = 0; i < tools.size(); ++i)
    CAIRN_TRY_VOID(read_tool(tools[i], fmt::format("{}[{}]", path, i), name_space));
  return {};
}

}  // namespace

std::string offered_name(std::string_view name_space, std::string_view name) {
  if (name_space.empty()) return std::string(name);
  return fmt::format("{}{}{}", name_space, name_space.ends_with("__") ? "" : "__", name);
}

Result<ToolList> read_tool_list(const ordered_json& tools, const std::string& path) {
  const auto is_search = [](const ordered_json& tool) {
    return tool.is_object() && is(tool, "type", kToolSearch) && is(tool, "execution", "client");
  };
  Reader reader(tools.is_array() && std::ranges::any_of(tools, is_search));
  CAIRN_TRY_VOID(reader.read(tools, path, {}));
  return reader.take();
}

ToolList found_tools(const ordered_json& tools) {
  ToolList found;
  if (!tools.is_array()) return found;
  for (const auto& tool : tools) {
    Reader reader(false);
    // History is data: what is no tool is not offered, and that is all.
    if (!reader.read(ordered_json::array({tool}), "tools", {})) continue;
    ToolList read = reader.take();
    for (auto& function : read.functions) {
      if (found.functions.size() == kToolsMax) return found;
      if (found.offered.contains(function["function"]["name"].get_ref<const std::string&>())) continue;
      found.functions.push_back(std::move(function));
    }
    found.offered.merge(read.offered);
  }
  return found;
}

}  // namespace cairn::api::responses
