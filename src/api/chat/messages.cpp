#include "api/chat/messages.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "api/chat/tool_forms.h"
#include "api/chat/unreadable.h"
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

/// The calls of the assistant's last message with calls, in their order: results that name none answer the first one
/// without a result. Sessions of other servers have calls without ids, or several with the same.
struct OpenCalls {
  std::vector<std::string> waiting;
  int calls_seen = 0;  // of the whole conversation
};

bool is_nonempty_string(const ordered_json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() && !found->get_ref<const std::string&>().empty();
}

/// Whether a message of the user's belongs to the results before it: what has no text, right behind a tool's message,
/// is what clients send that cannot put a picture into a result.
bool is_attachment(const ordered_json& messages, size_t i) {
  if (i == 0 || !messages[i].is_object() || !messages[i - 1].is_object() || !is(messages[i], "role", "user") ||
      !is(messages[i - 1], "role", "tool"))
    return false;
  const auto content = messages[i].find("content");
  return content != messages[i].end() && content->is_array() && !content->empty() &&
         std::ranges::all_of(*content, [](const ordered_json& part) {
           return part.is_object() && is_nonempty_string(part, "type") &&
                  !media_kind(part["type"].get_ref<const std::string&>()).empty();
         });
}

/// Who has put something into the conversation that is no text.
enum class Author { kUser, kTool, kModel };

/// The part as a text part; null: it is left out.
ordered_json read_part(RequestFields& fields, const ordered_json& part, const std::string& path, Author author) {
  if (!part.is_object() || !is_nonempty_string(part, "type")) {
    fields.reject(path, "must be an object with a type");
    return nullptr;
  }
  const auto& type = part["type"].get_ref<const std::string&>();
  const std::string_view text = type == "refusal" ? "refusal" : "text";
  const auto found = part.find(text);
  if (found != part.end() && found->is_string()) return {{"type", "text"}, {"text", *found}};
  if (type == text || type == "input_text" || type == "output_text") {
    fields.reject(fmt::format("{}.{}", path, text), "must be a string");
    return nullptr;
  }
  if (author == Author::kTool) return {{"type", "text"}, {"text", unreadable_part(part)}};
  if (author == Author::kModel) {
    log_unknown_block(type);
    return nullptr;
  }
  fields.reject(path + ".type", fmt::format("{} is not supported: this model reads text only", quoted_value(type)));
  return nullptr;
}

void read_content(RequestFields& fields, ordered_json& message, const std::string& path, Author author) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    // An assistant's turn may be nothing but calls, and a tool may have nothing to say.
    if (content == message.end() && author == Author::kUser) return fields.reject(path + ".content", "is missing");
    message["content"] = "";
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array()) {
    return fields.reject(path + ".content",
                         fmt::format("must be a string or an array of parts, not {}", json_kind(*content)));
  }
  ordered_json parts = ordered_json::array();
  for (size_t i = 0; i < content->size(); ++i) {
    ordered_json part = read_part(fields, (*content)[i], fmt::format("{}.content[{}]", path, i), author);
    if (!part.is_null()) parts.push_back(std::move(part));
  }
  *content = std::move(parts);
}

void read_call(RequestFields& fields, ordered_json& call, const std::string& path, OpenCalls& open) {
  if (!call.is_object()) return fields.reject(path, fmt::format("must be an object, not {}", json_kind(call)));
  if (is(call, "type", "custom") && call.contains("custom") && call["custom"].is_object()) {
    // A tool of one string, of which a function is made.
    const ordered_json custom = call["custom"];
    call["function"] = {{"name", custom.value("name", ordered_json(""))},
                        {"arguments", {{"input", custom.value("input", ordered_json(""))}}}};
    call.erase("custom");
  }
  call["type"] = "function";
  ++open.calls_seen;
  if (!is_nonempty_string(call, "id")) call["id"] = history_call_id(open.calls_seen);
  open.waiting.push_back(call["id"]);
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object())
    return fields.reject(path + ".function", "is missing or not an object");
  if (!is_nonempty_string(*function, "name"))
    return fields.reject(path + ".function.name", "is missing or not a string");
  auto& arguments = (*function)["arguments"];
  if (arguments.is_null()) arguments = "{}";
  if (!arguments.is_string() && !arguments.is_object()) arguments = dump(arguments);
}

void read_calls(RequestFields& fields, ordered_json& message, const std::string& path, OpenCalls& open) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  if (calls->is_null() || (calls->is_array() && calls->empty())) {
    message.erase("tool_calls");
    return;
  }
  if (!calls->is_array() || calls->size() > kHistoryCallsMax) {
    return fields.reject(path + ".tool_calls", fmt::format("must be an array of at most {} calls", kHistoryCallsMax));
  }
  open.waiting.clear();
  for (size_t i = 0; i < calls->size(); ++i)
    read_call(fields, (*calls)[i], fmt::format("{}.tool_calls[{}]", path, i), open);
}

void read_tool_result(ordered_json& message, OpenCalls& open) {
  if (!is_nonempty_string(message, "tool_call_id"))
    message["tool_call_id"] = open.waiting.empty() ? history_call_id(++open.calls_seen) : open.waiting.front();
  const auto answered = std::ranges::find(open.waiting, message["tool_call_id"].get_ref<const std::string&>());
  if (answered != open.waiting.end()) open.waiting.erase(answered);
}

// "reasoning" is what some servers call the thinking.
void read_thinking(ordered_json& message) {
  if (!message.contains("reasoning_content") && message.contains("reasoning") && message["reasoning"].is_string())
    message["reasoning_content"] = message["reasoning"];
  if (message.contains("reasoning_content") && !message["reasoning_content"].is_string())
    message.erase("reasoning_content");
}

// The forms that came before tools: one call without an id, and a message of the function's.
void replace_old_call(ordered_json& message) {
  const auto role = message.find("role");
  if (role != message.end() && *role == "function") *role = "tool";
  const auto call = message.find("function_call");
  if (call == message.end()) return;
  const auto calls = message.find("tool_calls");
  const bool has_calls = calls != message.end() && !calls->is_null() && !calls->empty();
  if (call->is_object() && !has_calls)
    message["tool_calls"] = ordered_json::array({{{"type", "function"}, {"function", *call}}});
  message.erase("function_call");
}

/// Checks a message and brings it into the form that templates know.
void read_message(RequestFields& fields, ordered_json& message, const std::string& path, OpenCalls& open,
                  bool is_attached) {
  if (!message.is_object()) return fields.reject(path, fmt::format("must be an object, not {}", json_kind(message)));
  replace_old_call(message);
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) return fields.reject(path + ".role", "is missing or not a string");
  if (*role == "developer") *role = "system";
  const std::string name = *role;
  if (name.empty() || name.size() > kRoleBytesMax)
    return fields.reject(path + ".role", fmt::format("must have 1 to {} bytes", kRoleBytesMax));
  const bool of_tool = name == "tool" || is_attached;
  read_content(fields, message, path, of_tool ? Author::kTool : name == "assistant" ? Author::kModel : Author::kUser);
  if (name == "tool") read_tool_result(message, open);
  if (name != "assistant") return;
  read_thinking(message);
  read_calls(fields, message, path, open);
}

}  // namespace

std::string history_call_id(int number) { return fmt::format("call{:05}", number); }

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
  variables = *given;
}

std::string tool_name_fault(const ordered_json& name) {
  const std::string* text = name.get_ptr<const std::string*>();
  if (text == nullptr || text->empty() || text->size() > kToolNameBytesMax)
    return fmt::format("must be a string of 1 to {} bytes", kToolNameBytesMax);
  const auto breaks_calls = [](char byte) {
    return static_cast<unsigned char>(byte) < ' ' || byte == '\x7f' || std::string_view("\"\\<>").contains(byte);
  };
  const auto at = std::ranges::find_if(*text, breaks_calls);
  if (at == text->end()) return {};
  const bool is_control = *at < ' ' || *at == '\x7f';
  const std::string character =
      is_control ? fmt::format("U+{:04X}", static_cast<unsigned char>(*at)) : std::string(1, *at);
  return fmt::format(
      "may have no quotes, backslashes, angle brackets or control characters, such as the {} in {}: calls could not be "
      "written with it",
      character, quoted_value(name));
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
  read = *messages;
  OpenCalls open;
  for (size_t i = 0; i < read.size(); ++i)
    read_message(fields, read[i], fmt::format("messages[{}]", i), open, is_attachment(*messages, i));
  return read;
}

namespace {

// The tool as templates want it, or null after an error. `function_path`: where its function stands in the request.
ordered_json read_tool(RequestFields& fields, const ordered_json& tool, const std::string& path,
                       const std::string& function_path) {
  const auto refuse = [&](const std::string& where, std::string why) -> ordered_json {
    fields.reject(where, std::move(why));
    return nullptr;
  };
  if (!tool.is_object()) return refuse(path, fmt::format("must be an object, not {}", json_kind(tool)));
  if (!tool.contains("type") || tool["type"] != "function")
    return refuse(path + ".type", "must be \"function\": this server runs no tools of its own");
  const auto function = tool.find("function");
  if (function == tool.end() || !function->is_object()) return refuse(function_path, "is missing or not an object");
  const auto name = function->find("name");
  if (std::string fault = tool_name_fault(name == function->end() ? ordered_json() : *name); !fault.empty())
    return refuse(function_path + ".name", std::move(fault));
  const auto description = function->find("description");
  if (description != function->end() && !description->is_string() && !description->is_null())
    return refuse(function_path + ".description", "must be a string");
  const auto parameters = function->find("parameters");
  if (parameters != function->end() && !parameters->is_object() && !parameters->is_null())
    return refuse(function_path + ".parameters", fmt::format("must be an object, not {}", json_kind(*parameters)));
  for (const auto* other : {"input_schema", "inputSchema", "schema"})
    if ((parameters == function->end() || parameters->is_null()) && function->contains(other) &&
        (*function)[other].is_object())
      return refuse(function_path + ".parameters", fmt::format("is missing: the schema in {} belongs there", other));
  ordered_json read = tool;
  auto& read_function = read["function"];
  // Many templates print the description unasked.
  if (!read_function.contains("description") || read_function["description"].is_null())
    read_function["description"] = "";
  if (!read_function.contains("parameters") || read_function["parameters"].is_null())
    read_function["parameters"] = {{"type", "object"}, {"properties", ordered_json::object()}};
  return read;
}

// `name`: tools, or functions, which stand without a wrapper.
ordered_json read_tool_list(RequestFields& fields, std::string_view name) {
  const ordered_json* tools = fields.get(name);
  if (tools == nullptr) return nullptr;
  if (!tools->is_array() || tools->size() > kToolsMax) {
    fields.reject(name, fmt::format("must be an array of at most {} {}", kToolsMax, name));
    return nullptr;
  }
  const bool wrapped = name == "tools";
  ordered_json read = ordered_json::array();
  std::set<std::string> names;
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string path = fmt::format("{}[{}]", name, i);
    const std::string function_path = wrapped ? path + ".function" : path;
    const ordered_json& given = (*tools)[i];
    ordered_json tool =
        read_tool(fields, wrapped ? function_tool(given) : ordered_json{{"type", "function"}, {"function", given}},
                  path, function_path);
    if (tool.is_null()) return nullptr;
    if (!names.insert(tool["function"]["name"].get<std::string>()).second) {
      fields.reject(function_path + ".name",
                    fmt::format("{} is the name of another tool", quoted_value(tool["function"]["name"])));
      return nullptr;
    }
    read.push_back(std::move(tool));
  }
  return read.empty() ? ordered_json(nullptr) : read;
}

}  // namespace

ordered_json read_tools(RequestFields& fields) { return read_tool_list(fields, "tools"); }

ordered_json read_functions(RequestFields& fields) { return read_tool_list(fields, "functions"); }

void read_function_call(RequestFields& fields, bool has_functions, ChatRequest& request) {
  const auto& tools = request.input.tools;
  const ordered_json* choice = fields.get("function_call");
  if (has_functions) request.parallel_calls = false;  // an answer has a place for one
  if (choice == nullptr || *choice == "auto") return;
  if (!has_functions) {
    if (*choice != "none" || !tools.is_null())
      fields.reject("function_call", "needs functions; of tools, tool_choice says what to call");
    return;
  }
  if (*choice == "none") {
    request.tool_use = chat::ToolUse::kNone;
    return;
  }
  if (!choice->is_object() || !is_nonempty_string(*choice, "name"))
    return fields.reject("function_call", "must be \"none\", \"auto\" or {\"name\": ...}");
  request.tool_use = chat::ToolUse::kRequired;
  request.tool_name = (*choice)["name"];
  const bool known =
      std::ranges::any_of(tools, [&](const auto& tool) { return tool["function"]["name"] == request.tool_name; });
  if (!known)
    fields.reject("function_call.name", fmt::format("{} is none of the functions", quoted_value((*choice)["name"])));
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

void read_tool_call_parsing(RequestFields& fields, ChatRequest& request) {
  const ordered_json* parsing = fields.get("tool_call_parsing");
  if (parsing == nullptr) return;
  request.lenient_calls = *parsing == "lenient";
  if (*parsing != "lenient" && *parsing != "strict")
    fields.reject("tool_call_parsing",
                  fmt::format("must be \"strict\" or \"lenient\", not {}", quoted_value(*parsing)));
}

void read_tool_choice(RequestFields& fields, ChatRequest& request) {
  request.parallel_calls = fields.boolean("parallel_tool_calls", true);
  read_tool_call_parsing(fields, request);
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
    request.tool_use = chat::ToolUse::kRequired;
    request.tool_name = (*function)["name"];
    const bool known =
        std::ranges::any_of(tools, [&](const auto& tool) { return tool["function"]["name"] == request.tool_name; });
    if (!known)
      fields.reject("tool_choice.function.name",
                    fmt::format("{} is none of the tools", quoted_value((*function)["name"])));
  } else if (*choice == "none") {
    request.tool_use = chat::ToolUse::kNone;
  } else if (*choice == "required") {
    request.tool_use = chat::ToolUse::kRequired;
    if (tools.is_null()) fields.reject("tool_choice", "is \"required\", but there are no tools");
  } else if (*choice != "auto") {
    fields.reject("tool_choice",
                  fmt::format("must be \"none\", \"auto\", \"required\" or {{\"type\": \"function\", \"function\": "
                              "{{\"name\": ...}}}}, not {}",
                              quoted_value(*choice)));
  }
}

namespace {

void take_prefill(ordered_json& messages, std::string& prefill) {
  const auto asks = [](const ordered_json& message) {
    return is(message, "role", "user") || is(message, "role", "tool");
  };
  ordered_json& last = messages.back();
  if (!is(last, "role", "assistant") || last.contains("tool_calls") || std::ranges::none_of(messages, asks)) return;
  ordered_json& content = last["content"];
  if (content.is_string()) {
    prefill = std::move(content.get_ref<std::string&>());
  } else {
    for (const ordered_json& part : content) {
      if (!prefill.empty()) prefill += '\n';
      prefill += part["text"].get_ref<const std::string&>();
    }
  }
  messages.erase(messages.size() - 1);
}

}  // namespace

chat::ChatInput read_chat_input(RequestFields& fields, std::string& prefill, ordered_json functions) {
  chat::ChatInput input;
  input.messages = read_messages(fields);
  input.tools = read_tools(fields);
  if (!functions.is_null()) {
    if (!input.tools.is_null()) fields.reject("functions", "is the old form of tools; give one of them");
    input.tools = std::move(functions);
  }
  read_template_variables(fields, input.variables);
  input.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  // Agents end with a message of the assistant's after they have summed up, and wait for a new one.
  const bool is_prefill = input.add_generation_prompt && input.tools.is_null();
  const bool continues = fields.boolean("continue_final_message", is_prefill);
  const ordered_json* new_turn = fields.get("add_generation_prompt");
  const ordered_json* last_turn = fields.get("continue_final_message");
  if (new_turn != nullptr && last_turn != nullptr && input.add_generation_prompt && continues)
    fields.reject("continue_final_message", "contradicts add_generation_prompt: one of them may be true");
  if (continues && !fields.failed()) {
    take_prefill(input.messages, prefill);
    if (!prefill.empty()) input.add_generation_prompt = true;
  }
  return input;
}

bool set_effort(std::string_view effort, chat::ReasoningOptions& reasoning) {
  static constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                               "high", "xhigh",   "max"};
  if (std::ranges::find(kEfforts, effort) == kEfforts.end()) return false;
  reasoning.enabled = effort != "none";
  if (effort != "none") reasoning.effort = effort;
  return true;
}

namespace {

constexpr std::string_view kEffortNames = "must be one of none, minimal, low, medium, high, xhigh, max, not {}";

// OpenRouter's {"effort", "enabled", "max_tokens", "exclude"}; Responses has an object of this name, too.
void read_reasoning_object(RequestFields& fields, const ordered_json& object, chat::ReasoningOptions& reasoning) {
  if (const auto effort = object.find("effort"); effort != object.end() && !effort->is_null()) {
    if (!effort->is_string() || !set_effort(effort->get_ref<const std::string&>(), reasoning))
      fields.reject("reasoning.effort", fmt::format(kEffortNames, quoted_value(*effort)));
  }
  if (const auto enabled = object.find("enabled"); enabled != object.end() && !enabled->is_null()) {
    if (!enabled->is_boolean()) return fields.reject("reasoning.enabled", "must be true or false");
    reasoning.enabled = enabled->get<bool>();
  }
  if (const auto most = object.find("max_tokens"); most != object.end() && !most->is_null()) {
    if (!is_token_id(*most)) return fields.reject("reasoning.max_tokens", "must be an integer of at least 0");
    reasoning.tokens_max = most->get<int32_t>();
  }
  if (const auto exclude = object.find("exclude"); exclude != object.end() && !exclude->is_null()) {
    if (!exclude->is_boolean()) return fields.reject("reasoning.exclude", "must be true or false");
    reasoning.hidden = exclude->get<bool>();
  }
}

}  // namespace

void read_thinking_objects(RequestFields& fields, chat::ReasoningOptions& reasoning) {
  // An object of the field, or null; a switch and an effort are read here.
  const auto object_of = [&](std::string_view name) -> const ordered_json* {
    const ordered_json* value = fields.get(name);
    if (value == nullptr || value->is_object()) return value;
    if (value->is_boolean()) {
      reasoning.enabled = value->get<bool>();
    } else if (!value->is_string() || !set_effort(value->get_ref<const std::string&>(), reasoning)) {
      fields.reject(name, fmt::format("must be an object, true, false or an effort, not {}", quoted_value(*value)));
    }
    return nullptr;
  };
  if (const ordered_json* object = object_of("reasoning")) read_reasoning_object(fields, *object, reasoning);
  // OpenRouter's elder name for it, which vLLM has, too.
  if (!fields.boolean("include_reasoning", true)) reasoning.hidden = true;
  const ordered_json* thinking = object_of("thinking");
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

// `reasoning_format`, which llama.cpp has: where an answer's thinking stands.
void read_reasoning_format(RequestFields& fields, chat::ReasoningOptions& reasoning) {
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

void read_reasoning(RequestFields& fields, chat::ReasoningOptions& reasoning) {
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
