#include "api/chat/messages.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "api/chat/tool_forms.h"
#include "api/errors.h"
#include "api/params/generation_params.h"
#include "api/serialization/json_text.h"
#include "base/text/printable.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

bool is(const ordered_json& object, std::string_view name, std::string_view text) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() && found->get_ref<const std::string&>() == text;
}

// What a conversation gives to its template by itself.
constexpr std::array<std::string_view, 7> kServersVariables = {
    "messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "raise_exception", "strftime_now"};

/// The calls of the assistant's last message that no tool message has answered.
struct OpenCalls {
  std::set<std::string, std::less<>> waiting;
  std::set<std::string, std::less<>> answered;
};

void check_parts(RequestFields& fields, const ordered_json& content, const std::string& path) {
  for (size_t i = 0; i < content.size(); ++i) {
    const auto& part = content[i];
    const std::string part_path = fmt::format("{}.content[{}]", path, i);
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string())
      return fields.reject(part_path, "must be an object with a type");
    const auto& type = part["type"].get_ref<const std::string&>();
    const std::string_view text = type == "refusal" ? "refusal" : "text";
    if (type != "text" && type != "refusal") {
      return fields.reject(part_path + ".type",
                           fmt::format("{} is not supported: this model reads text only", quoted_value(type)));
    }
    if (!part.contains(text) || !part[text].is_string())
      return fields.reject(fmt::format("{}.{}", part_path, text), "must be a string");
  }
}

void check_content(RequestFields& fields, const ordered_json& message, const std::string& path) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    // An assistant's turn may be nothing but calls, or nothing at all: what a model once answered must be sendable.
    if (message["role"] != "assistant") fields.reject(path + ".content", "is missing");
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array()) {
    return fields.reject(path + ".content",
                         fmt::format("must be a string or an array of parts, not {}", json_kind(*content)));
  }
  check_parts(fields, *content, path);
}

void check_call(RequestFields& fields, const ordered_json& call, const std::string& path, OpenCalls& open) {
  if (!call.is_object()) return fields.reject(path, fmt::format("must be an object, not {}", json_kind(call)));
  if (call.contains("type") && call["type"] != "function")
    return fields.reject(path + ".type", fmt::format("must be \"function\", not {}", quoted_value(call["type"])));
  const auto id = call.find("id");
  if (id == call.end() || !id->is_string() || id->get_ref<const std::string&>().empty())
    return fields.reject(path + ".id", "is missing or not a string");
  if (!open.waiting.insert(id->get<std::string>()).second)
    return fields.reject(path + ".id", fmt::format("{} is the id of another call of this message", quoted_value(*id)));
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object())
    return fields.reject(path + ".function", "is missing or not an object");
  const auto name = function->find("name");
  if (name == function->end() || !name->is_string() || name->get_ref<const std::string&>().empty())
    return fields.reject(path + ".function.name", "is missing or not a string");
  const auto arguments = function->find("arguments");
  if (arguments != function->end() && !arguments->is_string() && !arguments->is_object() && !arguments->is_null()) {
    fields.reject(path + ".function.arguments", fmt::format("must be a string of JSON, not {}", json_kind(*arguments)));
  }
}

void check_calls(RequestFields& fields, const ordered_json& message, const std::string& path, OpenCalls& open) {
  open = {};
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || calls->is_null()) return;
  if (!calls->is_array() || calls->size() > kHistoryCallsMax) {
    return fields.reject(path + ".tool_calls", fmt::format("must be an array of at most {} calls", kHistoryCallsMax));
  }
  for (size_t i = 0; i < calls->size(); ++i)
    check_call(fields, (*calls)[i], fmt::format("{}.tool_calls[{}]", path, i), open);
}

void check_tool_result(RequestFields& fields, const ordered_json& message, const std::string& path, OpenCalls& open) {
  const auto id = message.find("tool_call_id");
  if (id == message.end() || !id->is_string())
    return fields.reject(path + ".tool_call_id", "is missing or not a string");
  const auto& name = id->get_ref<const std::string&>();
  if (open.answered.contains(name))
    return fields.reject(path + ".tool_call_id", fmt::format("{} has a result already", quoted_value(*id)));
  if (open.waiting.erase(name) == 0) {
    return fields.reject(path + ".tool_call_id",
                         fmt::format("{} is no call of the assistant's message before it", quoted_value(*id)));
  }
  open.answered.insert(name);
}

void check_message(RequestFields& fields, const ordered_json& message, const std::string& path, OpenCalls& open) {
  if (!message.is_object()) return fields.reject(path, fmt::format("must be an object, not {}", json_kind(message)));
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) return fields.reject(path + ".role", "is missing or not a string");
  static constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};
  const auto& name = role->get_ref<const std::string&>();
  if (std::ranges::find(kRoles, name) == kRoles.end()) {
    return fields.reject(path + ".role",
                         fmt::format("{} is not one of system, developer, user, assistant, tool", quoted_value(name)));
  }
  check_content(fields, message, path);
  if (name == "assistant") return check_calls(fields, message, path, open);
  if (name == "tool") return check_tool_result(fields, message, path, open);
  if (name == "user") open = {};
}

// Names that templates know; "reasoning" is what some servers call it.
void bring_into_form(ordered_json& message) {
  if (message["role"] == "developer") message["role"] = "system";
  if (message["role"] != "assistant") return;
  if (!message.contains("content") || message["content"].is_null()) message["content"] = "";
  if (message["content"].is_array()) {
    for (auto& part : message["content"])
      if (part["type"] == "refusal") part = {{"type", "text"}, {"text", part["refusal"]}};
  }
  if (!message.contains("reasoning_content") && message.contains("reasoning") && message["reasoning"].is_string())
    message["reasoning_content"] = message["reasoning"];
  if (message.contains("reasoning_content") && !message["reasoning_content"].is_string())
    message.erase("reasoning_content");
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  if (calls->is_null() || calls->empty()) {
    message.erase("tool_calls");
    return;
  }
  for (auto& call : *calls) {
    call["type"] = "function";
    auto& arguments = call["function"]["arguments"];
    if (arguments.is_null()) arguments = "{}";
  }
}

}  // namespace

namespace {

// The path below `value`, told on the way back: one for every value would take as long as all names together.
std::optional<std::string> nul_below(const ordered_json& value) {
  const auto has_nul = [](std::string_view text) { return text.find('\0') != std::string_view::npos; };
  if (value.is_string()) return has_nul(value.get_ref<const std::string&>()) ? std::optional("") : std::nullopt;
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      if (has_nul(key)) return "";
      if (const auto found = nul_below(item)) return fmt::format(".{}{}", printable(key), *found);
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i)
      if (const auto found = nul_below(value[i])) return fmt::format("[{}]{}", i, *found);
  }
  return std::nullopt;
}

}  // namespace

std::string find_nul(const ordered_json& value, const std::string& path) {
  const auto below = nul_below(value);
  return below ? cut_text(path + *below, kEchoBytesMax) : std::string();
}

void read_template_variables(RequestFields& fields, ordered_json& variables) {
  constexpr std::string_view kName = "chat_template_kwargs";
  const ordered_json* given = fields.object(kName);
  if (given == nullptr) return;
  if (given->size() > kTemplateVariablesMax)
    return fields.reject(kName, fmt::format("may have at most {} variables", kTemplateVariablesMax));
  for (const std::string_view name : kServersVariables) {
    if (given->contains(name))
      return fields.reject(fmt::format("{}.{}", kName, name), "is a variable that the server sets; leave it out");
  }
  if (const std::string nul = find_nul(*given, std::string(kName)); !nul.empty())
    return fields.reject(nul, "holds a NUL character");
  variables = *given;
}

ordered_json read_messages(RequestFields& fields) {
  const ordered_json* messages = fields.get("messages");
  ordered_json read = ordered_json::array();
  const auto refuse = [&](std::string_view why) {
    fields.reject("messages", std::string(why));
    return read;
  };
  if (messages == nullptr) return refuse("is missing");
  if (!messages->is_array()) return refuse(fmt::format("must be an array, not {}", json_kind(*messages)));
  if (messages->empty() || messages->size() > kMessagesMax)
    return refuse(fmt::format("must have 1 to {} messages, not {}", kMessagesMax, messages->size()));
  OpenCalls open;
  for (size_t i = 0; i < messages->size(); ++i)
    check_message(fields, (*messages)[i], fmt::format("messages[{}]", i), open);
  if (const std::string nul = find_nul(*messages, "messages"); !nul.empty())
    fields.reject(nul, "holds a NUL character");
  if (fields.failed()) return read;
  read = *messages;
  for (auto& message : read) bring_into_form(message);
  return read;
}

namespace {

// The tool as templates want it, or null after an error.
ordered_json read_tool(RequestFields& fields, const ordered_json& tool, const std::string& path) {
  const auto refuse = [&](const std::string& where, std::string why) -> ordered_json {
    fields.reject(where, std::move(why));
    return nullptr;
  };
  if (!tool.is_object()) return refuse(path, fmt::format("must be an object, not {}", json_kind(tool)));
  if (!tool.contains("type") || tool["type"] != "function")
    return refuse(path + ".type", "must be \"function\": this server runs no tools of its own");
  const auto function = tool.find("function");
  if (function == tool.end() || !function->is_object())
    return refuse(path + ".function", "is missing or not an object");
  const auto name = function->find("name");
  if (name == function->end() || !name->is_string() || name->get_ref<const std::string&>().empty() ||
      name->get_ref<const std::string&>().size() > kToolNameBytesMax)
    return refuse(path + ".function.name", fmt::format("must be a string of 1 to {} bytes", kToolNameBytesMax));
  const auto description = function->find("description");
  if (description != function->end() && !description->is_string() && !description->is_null())
    return refuse(path + ".function.description", "must be a string");
  const auto parameters = function->find("parameters");
  if (parameters != function->end() && !parameters->is_object() && !parameters->is_null())
    return refuse(path + ".function.parameters", fmt::format("must be an object, not {}", json_kind(*parameters)));
  ordered_json read = tool;
  auto& read_function = read["function"];
  // Many templates print the description unasked.
  if (!read_function.contains("description") || read_function["description"].is_null())
    read_function["description"] = "";
  if (!read_function.contains("parameters") || read_function["parameters"].is_null())
    read_function["parameters"] = {{"type", "object"}, {"properties", ordered_json::object()}};
  return read;
}

}  // namespace

ordered_json read_tools(RequestFields& fields) {
  const ordered_json* tools = fields.get("tools");
  if (tools == nullptr) return nullptr;
  if (!tools->is_array() || tools->size() > kToolsMax) {
    fields.reject("tools", fmt::format("must be an array of at most {} tools", kToolsMax));
    return nullptr;
  }
  if (const std::string nul = find_nul(*tools, "tools"); !nul.empty()) fields.reject(nul, "holds a NUL character");
  ordered_json read = ordered_json::array();
  std::set<std::string> names;
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    ordered_json tool = read_tool(fields, function_tool((*tools)[i]), path);
    if (tool.is_null()) return nullptr;
    if (!names.insert(tool["function"]["name"].get<std::string>()).second) {
      fields.reject(path + ".function.name",
                    fmt::format("{} is the name of another tool", quoted_value(tool["function"]["name"])));
      return nullptr;
    }
    read.push_back(std::move(tool));
  }
  return read.empty() ? ordered_json(nullptr) : read;
}

namespace {

/// {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}, or flat: leaves those tools, and gives
/// the mode.
ordered_json keep_allowed_tools(RequestFields& fields, const ordered_json& choice, ordered_json& tools) {
  const auto nested = choice.find("allowed_tools");
  const ordered_json& allowed = nested != choice.end() && nested->is_object() ? *nested : choice;
  const auto list = allowed.find("tools");
  if (list == allowed.end() || !list->is_array() || list->size() > kToolsMax) {
    fields.reject("tool_choice.allowed_tools.tools", fmt::format("must be an array of at most {} tools", kToolsMax));
    return "auto";
  }
  std::set<std::string> names;
  for (const auto& tool : *list) names.insert(tool_name_of(tool));
  ordered_json kept = ordered_json::array();
  for (auto& tool : tools)
    if (names.contains(tool["function"]["name"].get<std::string>())) kept.push_back(std::move(tool));
  tools = kept.empty() ? ordered_json(nullptr) : std::move(kept);
  const auto mode = allowed.find("mode");
  return mode == allowed.end() || mode->is_null() ? ordered_json("auto") : *mode;
}

}  // namespace

void read_tool_choice(RequestFields& fields, ChatRequest& request) {
  request.parallel_calls = fields.boolean("parallel_tool_calls", true);
  const ordered_json* given = fields.get("tool_choice");
  if (given == nullptr) return;
  const bool narrowed = given->is_object() && is(*given, "type", "allowed_tools");
  const ordered_json plain =
      plain_tool_choice(narrowed ? keep_allowed_tools(fields, *given, request.input.tools) : *given);
  const ordered_json* choice = &plain;
  const auto& tools = request.input.tools;
  if (choice->is_object() && is(*choice, "type", "function")) {
    const auto function = choice->find("function");
    if (function == choice->end() || !function->is_object() || !function->contains("name") ||
        !(*function)["name"].is_string())
      return fields.reject("tool_choice.function.name", "is missing or not a string");
    request.tool_use = ToolUse::kRequired;
    request.tool_name = (*function)["name"];
    const bool known =
        std::ranges::any_of(tools, [&](const auto& tool) { return tool["function"]["name"] == request.tool_name; });
    if (!known)
      fields.reject("tool_choice.function.name",
                    fmt::format("{} is none of the tools", quoted_value((*function)["name"])));
  } else if (*choice == "none") {
    request.tool_use = ToolUse::kNone;
  } else if (*choice == "required") {
    request.tool_use = ToolUse::kRequired;
    if (tools.is_null()) fields.reject("tool_choice", "is \"required\", but there are no tools");
  } else if (*choice != "auto") {
    fields.reject("tool_choice",
                  fmt::format("must be \"none\", \"auto\", \"required\" or {{\"type\": \"function\", \"function\": "
                              "{{\"name\": ...}}}}, not {}",
                              quoted_value(*choice)));
  }
}

ChatInput read_chat_input(RequestFields& fields) {
  ChatInput input;
  input.messages = read_messages(fields);
  input.tools = read_tools(fields);
  read_template_variables(fields, input.variables);
  input.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  return input;
}

bool set_effort(std::string_view effort, ReasoningOptions& reasoning) {
  static constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                               "high", "xhigh",   "max"};
  if (std::ranges::find(kEfforts, effort) == kEfforts.end()) return false;
  reasoning.enabled = effort != "none";
  if (effort != "none") reasoning.effort = effort;
  return true;
}

namespace {

constexpr std::string_view kEffortNames = "must be one of none, minimal, low, medium, high, xhigh, max, not {}";

// OpenRouter's {"effort", "enabled", "max_tokens"}; Responses has an object of this name, too.
void read_reasoning_object(RequestFields& fields, const ordered_json& object, ReasoningOptions& reasoning) {
  if (const auto effort = object.find("effort"); effort != object.end() && !effort->is_null()) {
    if (!effort->is_string() || !set_effort(effort->get_ref<const std::string&>(), reasoning))
      fields.reject("reasoning.effort", fmt::format(kEffortNames, quoted_value(*effort)));
  }
  if (const auto enabled = object.find("enabled"); enabled != object.end() && !enabled->is_null()) {
    if (!enabled->is_boolean()) return fields.reject("reasoning.enabled", "must be true or false");
    reasoning.enabled = enabled->get<bool>();
  }
}

}  // namespace

void read_thinking_objects(RequestFields& fields, ReasoningOptions& reasoning) {
  if (const ordered_json* object = fields.object("reasoning")) read_reasoning_object(fields, *object, reasoning);
  const ordered_json* thinking = fields.object("thinking");
  if (thinking == nullptr) return;
  const auto type = thinking->find("type");
  if (type == thinking->end() || !type->is_string())
    return fields.reject("thinking.type", "is missing or not a string: \"enabled\" or \"disabled\"");
  reasoning.enabled = *type != "disabled";
  const auto budget = thinking->find("budget_tokens");
  if (budget == thinking->end() || budget->is_null() || *type == "disabled") return;
  if (!is_token_id(*budget)) return fields.reject("thinking.budget_tokens", "must be an integer of at least 0");
  reasoning.tokens_max = budget->get<int32_t>();
}

namespace {

// llama.cpp's.
void read_reasoning_format(RequestFields& fields, ReasoningOptions& reasoning) {
  const std::string format = fields.string("reasoning_format", "auto");
  reasoning.as_content = format == "none";
  if (format == "deepseek-legacy") {
    fields.refuse("reasoning_format", "thinking is in reasoning_content alone, or with \"none\" in content alone");
  } else if (format != "none" && format != "auto" && format != "deepseek") {
    fields.reject("reasoning_format",
                  fmt::format("must be \"none\", \"auto\" or \"deepseek\", not {}", quoted_value(format)));
  }
}

}  // namespace

void read_reasoning(RequestFields& fields, ReasoningOptions& reasoning) {
  if (const ordered_json* effort = fields.get("reasoning_effort")) {
    if (!effort->is_string() || !set_effort(effort->get_ref<const std::string&>(), reasoning)) {
      fields.reject("reasoning_effort", fmt::format(kEffortNames, quoted_value(*effort)));
    }
  }
  if (fields.get("enable_thinking") != nullptr) reasoning.enabled = fields.boolean("enable_thinking", true);
  for (const auto* name : {"thinking_budget", "thinking_budget_tokens", "reasoning_budget_tokens"}) {
    if (const auto budget = fields.optional_integer(name, -1, kTokensMax); budget && *budget >= 0)
      reasoning.tokens_max = static_cast<int32_t>(*budget);
  }
  read_reasoning_format(fields, reasoning);
}

}  // namespace cairn::api
