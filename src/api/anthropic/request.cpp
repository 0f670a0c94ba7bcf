#include "api/anthropic/request.h"

#include <algorithm>
#include <set>

#include "api/anthropic/content.h"
#include "api/chat/messages.h"
#include "api/params/answer_form.h"
#include "api/params/generation_params.h"
#include "api/params/left_out.h"
#include "api/params/request_context.h"
#include "api/params/request_fields.h"

namespace cairn::api::anthropic {
namespace {

using nlohmann::ordered_json;

void read_stop_sequences(RequestFields& fields, std::vector<std::string>& stop) {
  const ordered_json* value = fields.get("stop_sequences");
  if (value == nullptr) return;
  if (!value->is_array() || value->size() > kStopsMax)
    return fields.reject("stop_sequences", fmt::format("must be an array of at most {} strings", kStopsMax));
  for (size_t i = 0; i < value->size(); ++i) {
    const auto& text = (*value)[i];
    if (!text.is_string() || text.get_ref<const std::string&>().size() > engine::kStopBytesMax)
      return fields.reject(fmt::format("stop_sequences[{}]", i),
                           fmt::format("must be a string of at most {} bytes", engine::kStopBytesMax));
    if (!text.get_ref<const std::string&>().empty()) stop.push_back(text);  // an empty one asks for nothing
  }
}

/// The tool in OpenAI's shape, or null if it is one that Anthropic's models or servers bring with them.
Result<ordered_json> read_tool(RequestContext& context, const ordered_json& tool, const std::string& path) {
  if (!tool.is_object()) return invalid_field(path, fmt::format("must be an object, not {}", json_kind(tool)));
  RequestFields fields(context, tool, path + ".");
  if (const std::string type = fields.string("type", "custom"); !fields.failed() && type != "custom")
    return ordered_json(nullptr);
  const std::string name = fields.string("name", "");
  if (std::string fault = tool_name_fault(name); !fault.empty()) fields.reject("name", std::move(fault));
  const std::string description = fields.string("description", "");
  const ordered_json* schema = fields.get("input_schema");
  if (schema == nullptr || !schema->is_object())
    fields.reject("input_schema", schema == nullptr ? "is missing: the JSON Schema of the tool's arguments goes there"
                                                    : fmt::format("must be an object, not {}", json_kind(*schema)));
  const bool strict = fields.boolean("strict", false);
  const ordered_json* examples = fields.get("input_examples");
  if (examples != nullptr && !examples->is_array()) fields.reject("input_examples", "must be an array of objects");
  // What else a tool has, such as cache_control, changes nothing here, and is no reason to refuse it, or to say so.
  for (const auto& [key, value] : tool.items()) fields.get(key);
  CAIRN_TRY_VOID(fields.finish());
  ordered_json function = {{"name", name}, {"description", description}, {"parameters", *schema}};
  if (examples != nullptr) function["parameters"]["examples"] = *examples;
  if (strict) function["strict"] = true;
  return ordered_json{{"type", "function"}, {"function", std::move(function)}};
}

Result<ordered_json> read_tools(RequestContext& context, const ordered_json* tools) {
  if (tools == nullptr) return ordered_json(nullptr);
  if (!tools->is_array() || tools->size() > kToolsMax)
    return invalid_field("tools", fmt::format("must be an array of at most {} tools", kToolsMax));
  ordered_json read = ordered_json::array();
  std::set<std::string> names;
  std::set<std::string> left_out_types;
  std::string left_out;  // the first one's path
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    CAIRN_TRY(ordered_json tool, read_tool(context, (*tools)[i], path));
    if (tool.is_null()) {
      left_out_types.insert(quoted_value((*tools)[i]["type"]));
      if (left_out.empty()) left_out = path;
      continue;
    }
    const auto& name = tool["function"]["name"].get_ref<const std::string&>();
    if (!names.insert(name).second)
      return invalid_field(path + ".name", fmt::format("{} is the name of another tool", quoted_value(name)));
    read.push_back(std::move(tool));
  }
  log_left_out(context, "/v1/messages", left_out_types);
  if (!read.empty()) return read;
  if (!left_out.empty())
    return fail_at(left_out + ".type", Code::kUnsupported,
                   "{}.type is not supported: this server runs no tools of its own; send a tool with an input_schema",
                   left_out);
  return ordered_json(nullptr);
}

Result<void> read_tool_choice(RequestContext& context, const ordered_json* choice, ChatRequest& chat) {
  if (choice == nullptr) return {};
  if (!choice->is_object())
    return invalid_field("tool_choice", fmt::format("must be an object, not {}", json_kind(*choice)));
  RequestFields fields(context, *choice, "tool_choice.");
  const std::string type = fields.string("type", "");
  chat.parallel_calls = !fields.boolean("disable_parallel_tool_use", false);
  const bool has_tools = !chat.input.tools.is_null();
  if (type == "tool") {
    chat.tool_use = chat::ToolUse::kRequired;
    chat.tool_name = fields.string("name", "");
    const bool known = has_tools && std::ranges::any_of(chat.input.tools, [&](const auto& tool) {
                         return tool["function"]["name"] == chat.tool_name;
                       });
    if (!known) fields.reject("name", fmt::format("{} is none of the tools", quoted_value(chat.tool_name)));
  } else if (type == "any") {
    chat.tool_use = chat::ToolUse::kRequired;
    if (!has_tools) fields.reject("type", "is \"any\", but there are no tools");
    // The only one there is: its name need not be left to the model.
    if (has_tools && chat.input.tools.size() == 1) chat.tool_name = chat.input.tools[0]["function"]["name"];
  } else if (type == "none") {
    chat.tool_use = chat::ToolUse::kNone;
  } else if (type != "auto") {
    fields.reject("type", fmt::format("must be \"auto\", \"any\", \"tool\" or \"none\", not {}", quoted_value(type)));
  }
  return fields.finish();
}

Result<void> read_thinking(RequestContext& context, const ordered_json* thinking, MessagesRequest& request) {
  if (thinking == nullptr) return {};
  if (!thinking->is_object())
    return invalid_field("thinking", fmt::format("must be an object, not {}", json_kind(*thinking)));
  RequestFields fields(context, *thinking, "thinking.");
  const std::string type = fields.string("type", "");
  chat::ReasoningOptions& options = request.chat.reasoning;
  if (type == "enabled") {
    options.enabled = true;
    const auto budget = fields.optional_integer("budget_tokens", 1, kTokensMax);
    if (!budget) fields.reject("budget_tokens", "is missing");
    options.tokens_max = static_cast<int32_t>(budget.value_or(1));
  } else if (type == "adaptive" || type == "between_tools") {
    options.enabled = true;
  } else if (type == "disabled") {
    options.enabled = false;
  } else {
    fields.reject("type", fmt::format("must be \"enabled\", \"adaptive\", \"between_tools\" or \"disabled\", not {}",
                                      quoted_value(type)));
  }
  // "updates" sends a summary anew as it grows; here the thinking itself is sent as it comes.
  const std::string display = fields.string("display", "summarized");
  if (display != "summarized" && display != "omitted") fields.tell("display", "is taken as \"summarized\"");
  request.shows_thinking = display != "omitted";
  fields.accept("block_binding", "thinking blocks are bound to nothing");
  return fields.finish();
}

Result<void> read_output_config(RequestContext& context, const ordered_json* config, chat::ReasoningOptions& options,
                                chat::AnswerForm& form) {
  if (config == nullptr) return {};
  if (!config->is_object())
    return invalid_field("output_config", fmt::format("must be an object, not {}", json_kind(*config)));
  RequestFields fields(context, *config, "output_config.");
  const std::string effort = fields.string("effort", "");
  if (fields.get("effort") != nullptr) {
    static constexpr std::array<std::string_view, 5> kEfforts = {"low", "medium", "high", "xhigh", "max"};
    if (std::ranges::find(kEfforts, effort) == kEfforts.end())
      fields.reject("effort",
                    fmt::format("must be one of low, medium, high, xhigh, max, not {}", quoted_value(effort)));
    options.effort = effort;
  }
  read_output_format(fields, "format", form);
  fields.accept("task_budget", "only max_tokens and thinking.budget_tokens limit an answer");
  refuse_misplaced_form(fields, *config, "output_config.format");
  return fields.finish();
}

/// Nothing of the context is ever cleared here: a longer prompt is not another question. clear_thinking_20251015 with
/// keep "all", which Claude Code asks for, is just that.
Result<void> read_context_management(RequestContext& context, const ordered_json* management) {
  if (management == nullptr) return {};
  const std::string path = "context_management";
  if (!management->is_object())
    return invalid_field(path, fmt::format("must be an object, not {}", json_kind(*management)));
  RequestFields fields(context, *management, path + ".");
  const ordered_json* edits = fields.get("edits");
  CAIRN_TRY_VOID(fields.finish());
  if (edits == nullptr) return {};
  if (!edits->is_array())
    return invalid_field(path + ".edits", fmt::format("must be an array, not {}", json_kind(*edits)));
  for (size_t i = 0; i < edits->size(); ++i) {
    const auto& edit = (*edits)[i];
    const std::string edit_path = fmt::format("{}.edits[{}]", path, i);
    const ordered_json type = edit.is_object() ? edit.value("type", ordered_json()) : ordered_json();
    const bool clears_thinking = type == "clear_thinking_20251015";
    if (!clears_thinking && type != "clear_tool_uses_20250919") {
      return fail_at(edit_path, Code::kUnsupported,
                     "{} is not supported: only clear_thinking_20251015 and clear_tool_uses_20250919 may stand there",
                     edit_path);
    }
    if (clears_thinking && edit.value("keep", ordered_json()) == "all") continue;
    context.note_ignored(edit_path, fmt::format("{} has no effect here: nothing of the context is cleared", edit_path));
  }
  return {};
}

Result<void> check_cache_control(const ordered_json* control) {
  if (control == nullptr) return {};
  if (!control->is_object() || control->value("type", ordered_json()) != "ephemeral")
    return invalid_field("cache_control", "must be {\"type\": \"ephemeral\"}");
  return {};
}

bool has_mark(const ordered_json& value) { return value.is_object() && value.contains("cache_control"); }

// Whether the request, a tool or a block of text marks what is to be cached.
bool marks_cache(const ordered_json& body) {
  if (has_mark(body)) return true;
  const auto in_list = [&](const ordered_json& of, const char* name) {
    const auto list = of.find(name);
    return list != of.end() && list->is_array() && std::ranges::any_of(*list, has_mark);
  };
  if (in_list(body, "tools") || in_list(body, "system")) return true;
  return std::ranges::any_of(body.at("messages"),
                             [&](const ordered_json& message) { return in_list(message, "content"); });
}

void read_service(RequestFields& fields) {
  if (const std::string tier = fields.string("service_tier", "auto"); tier != "auto" && tier != "standard_only")
    fields.reject("service_tier", fmt::format("must be \"auto\" or \"standard_only\", not {}", quoted_value(tier)));
  fields.only("speed", "standard", "there is one speed here, \"standard\"");
  fields.only_empty("mcp_servers", "this server calls no other servers; run the tools yourself");
  fields.refuse("container", "this server runs no code");
  fields.refuse("thread", "send the whole conversation");  // with details that clients look for: errors.cpp
  fields.refuse("compaction", "nothing is summarised here; send what the model should read");
  fields.accept("diagnostics", "GET /debug/prefix?request=ID says where a prompt left what was cached");
  fields.accept("inference_geo", "the answer is computed where this server runs");
  fields.accept("fallbacks", "one model is served");
  fields.accept({"user_profile_id", "workspace_id", "billing_policy"});
  fields.only("n", 1, "ask again for another answer");
}

}  // namespace

Result<MessagesRequest> parse_messages(RequestContext& context, const ordered_json& body, Purpose purpose) {
  RequestFields fields(context, body);
  MessagesRequest request;
  ChatRequest& chat = request.chat;
  chat.model = fields.string("model", "");
  chat.stream = fields.boolean("stream", false);
  const auto max_tokens = fields.optional_integer("max_tokens", -1, kTokensMax);
  if (!max_tokens && purpose == Purpose::kAnswer)
    fields.reject("max_tokens", "is missing: say how many tokens the answer may have at most");
  chat.generate.max_tokens = static_cast<int32_t>(max_tokens.value_or(1));
  read_stop_sequences(fields, chat.generate.stop);
  read_service(fields);
  const ordered_json* messages = fields.get("messages");
  if (messages == nullptr) fields.reject("messages", "is missing");
  for (const auto* name :
       {"system", "tools", "tool_choice", "thinking", "output_config", "context_management", "cache_control"})
    fields.get(name);
  read_generation_params(fields, chat.generate);
  read_template_variables(fields, chat.input.variables);
  read_reasoning(fields, chat.reasoning);
  read_tool_call_parsing(fields, chat);
  read_output_format(fields, "output_format", chat.form);
  refuse_answer_form(fields, "use output_config.format");
  CAIRN_TRY_VOID(fields.finish());

  CAIRN_TRY_VOID(check_cache_control(fields.get("cache_control")));
  CAIRN_TRY_VOID(read_context_management(context, fields.get("context_management")));
  CAIRN_TRY_VOID(read_thinking(context, fields.get("thinking"), request));
  CAIRN_TRY_VOID(read_output_config(context, fields.get("output_config"), chat.reasoning, chat.form));
  CAIRN_TRY(Conversation conversation, read_conversation(fields.get("system"), *messages));
  CAIRN_TRY(chat.input.tools, read_tools(context, fields.get("tools")));
  CAIRN_TRY_VOID(read_tool_choice(context, fields.get("tool_choice"), chat));
  if (!conversation.prefill.empty() && chat.tool_use == chat::ToolUse::kRequired)
    return invalid_field("tool_choice",
                         "wants an answer that begins with a call, but the last message has begun it with text");
  request.marks_cache = marks_cache(body);
  chat.input.messages = std::move(conversation.messages);
  chat.prefill = std::move(conversation.prefill);
  return request;
}

}  // namespace cairn::api::anthropic
