#include "api/anthropic/request.h"

#include <algorithm>
#include <set>

#include "api/anthropic/content.h"
#include "api/chat/messages.h"
#include "api/params/generation_params.h"
#include "api/params/left_out.h"
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
    if (!text.is_string() || text.get_ref<const std::string&>().empty() ||
        text.get_ref<const std::string&>().size() > kStopBytesMax)
      return fields.reject(fmt::format("stop_sequences[{}]", i),
                           fmt::format("must be a string of 1 to {} bytes", kStopBytesMax));
    stop.push_back(text);
  }
}

/// The tool in OpenAI's shape, or null if it is one that Anthropic's models or servers bring with them.
Result<ordered_json> read_tool(const ordered_json& tool, const std::string& path) {
  if (!tool.is_object()) return invalid_field(path, fmt::format("must be an object, not {}", json_kind(tool)));
  RequestFields fields(tool, path + ".");
  if (const std::string type = fields.string("type", "custom"); !fields.failed() && type != "custom")
    return ordered_json(nullptr);
  const std::string name = fields.string("name", "");
  if (name.empty() || name.size() > kToolNameBytesMax)
    fields.reject("name", fmt::format("must be a string of 1 to {} bytes", kToolNameBytesMax));
  const std::string description = fields.string("description", "");
  const ordered_json* schema = fields.get("input_schema");
  if (schema == nullptr || !schema->is_object())
    fields.reject("input_schema",
                  schema == nullptr ? "is missing" : fmt::format("must be an object, not {}", json_kind(*schema)));
  const bool strict = fields.boolean("strict", false);
  const ordered_json* examples = fields.get("input_examples");
  if (examples != nullptr && !examples->is_array()) fields.reject("input_examples", "must be an array of objects");
  // What else a tool has, such as cache_control, changes nothing here, and is no reason to refuse it.
  for (const auto& [key, value] : tool.items()) fields.accept({key});
  CAIRN_TRY_VOID(fields.finish());
  ordered_json function = {{"name", name}, {"description", description}, {"parameters", *schema}};
  if (examples != nullptr) function["parameters"]["examples"] = *examples;
  if (strict) function["strict"] = true;
  return ordered_json{{"type", "function"}, {"function", std::move(function)}};
}

Result<ordered_json> read_tools(const ordered_json* tools) {
  if (tools == nullptr) return ordered_json(nullptr);
  if (!tools->is_array() || tools->size() > kToolsMax)
    return invalid_field("tools", fmt::format("must be an array of at most {} tools", kToolsMax));
  if (const std::string nul = find_nul(*tools, "tools"); !nul.empty())
    return invalid_field(nul, "holds a NUL character");
  ordered_json read = ordered_json::array();
  std::set<std::string> names;
  std::set<std::string> left_out_types;
  std::string left_out;  // the first one's path
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    CAIRN_TRY(ordered_json tool, read_tool((*tools)[i], path));
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
  log_left_out("/v1/messages", left_out_types);
  if (!read.empty()) return read;
  if (!left_out.empty())
    return fail_at(left_out + ".type", Code::kUnsupported,
                   "{}.type is not supported: this server runs no tools of its own; send a tool with an input_schema",
                   left_out);
  return ordered_json(nullptr);
}

Result<void> read_tool_choice(const ordered_json* choice, ChatRequest& chat) {
  if (choice == nullptr) return {};
  if (!choice->is_object())
    return invalid_field("tool_choice", fmt::format("must be an object, not {}", json_kind(*choice)));
  RequestFields fields(*choice, "tool_choice.");
  const std::string type = fields.string("type", "");
  chat.parallel_calls = !fields.boolean("disable_parallel_tool_use", false);
  const bool has_tools = !chat.input.tools.is_null();
  if (type == "tool") {
    chat.tool_use = ToolUse::kRequired;
    chat.tool_name = fields.string("name", "");
    const bool known = has_tools && std::ranges::any_of(chat.input.tools, [&](const auto& tool) {
                         return tool["function"]["name"] == chat.tool_name;
                       });
    if (!known) fields.reject("name", fmt::format("{} is none of the tools", quoted_value(chat.tool_name)));
  } else if (type == "any") {
    chat.tool_use = ToolUse::kRequired;
    if (!has_tools) fields.reject("type", "is \"any\", but there are no tools");
    // The only one there is: its name need not be left to the model.
    if (has_tools && chat.input.tools.size() == 1) chat.tool_name = chat.input.tools[0]["function"]["name"];
  } else if (type == "none") {
    chat.tool_use = ToolUse::kNone;
  } else if (type != "auto") {
    fields.reject("type", fmt::format("must be \"auto\", \"any\", \"tool\" or \"none\", not {}", quoted_value(type)));
  }
  return fields.finish();
}

Result<void> read_thinking(const ordered_json* thinking, MessagesRequest& request) {
  if (thinking == nullptr) return {};
  if (!thinking->is_object())
    return invalid_field("thinking", fmt::format("must be an object, not {}", json_kind(*thinking)));
  RequestFields fields(*thinking, "thinking.");
  const std::string type = fields.string("type", "");
  ReasoningOptions& options = request.chat.reasoning;
  if (type == "enabled") {
    options.enabled = true;
    const auto budget = fields.optional_integer("budget_tokens", 1, kTokensMax);
    if (!budget) fields.reject("budget_tokens", "is missing");
    options.tokens_max = static_cast<int32_t>(budget.value_or(1));
  } else if (type == "adaptive") {
    options.enabled = true;
  } else if (type == "disabled") {
    options.enabled = false;
  } else {
    fields.reject("type", fmt::format("must be \"enabled\", \"adaptive\" or \"disabled\", not {}", quoted_value(type)));
  }
  const std::string display = type == "disabled" ? "" : fields.string("display", "summarized");
  if (type != "disabled" && display != "summarized" && display != "omitted")
    fields.reject("display", fmt::format("must be \"summarized\" or \"omitted\", not {}", quoted_value(display)));
  request.shows_thinking = display != "omitted";
  return fields.finish();
}

Result<void> read_output_config(const ordered_json* config, ReasoningOptions& options) {
  if (config == nullptr) return {};
  if (!config->is_object())
    return invalid_field("output_config", fmt::format("must be an object, not {}", json_kind(*config)));
  RequestFields fields(*config, "output_config.");
  const std::string effort = fields.string("effort", "");
  if (fields.get("effort") != nullptr) {
    static constexpr std::array<std::string_view, 5> kEfforts = {"low", "medium", "high", "xhigh", "max"};
    if (std::ranges::find(kEfforts, effort) == kEfforts.end())
      fields.reject("effort",
                    fmt::format("must be one of low, medium, high, xhigh, max, not {}", quoted_value(effort)));
    options.effort = effort;
  }
  fields.refuse("format", "say in the messages what form the answer should have, or force a tool with tool_choice");
  return fields.finish();
}

/// Nothing of the context is ever cleared here; Claude Code asks for just that.
Result<void> read_context_management(const ordered_json* management) {
  if (management == nullptr) return {};
  const std::string path = "context_management";
  if (!management->is_object())
    return invalid_field(path, fmt::format("must be an object, not {}", json_kind(*management)));
  RequestFields fields(*management, path + ".");
  const ordered_json* edits = fields.get("edits");
  CAIRN_TRY_VOID(fields.finish());
  if (edits == nullptr) return {};
  if (!edits->is_array())
    return invalid_field(path + ".edits", fmt::format("must be an array, not {}", json_kind(*edits)));
  for (size_t i = 0; i < edits->size(); ++i) {
    const auto& edit = (*edits)[i];
    const bool keeps_all = edit.is_object() && edit.value("type", ordered_json()) == "clear_thinking_20251015" &&
                           edit.value("keep", ordered_json()) == "all";
    if (keeps_all) continue;
    const std::string edit_path = fmt::format("{}.edits[{}]", path, i);
    return fail_at(edit_path, Code::kUnsupported,
                   "{} is not supported: nothing of the context is cleared here; only clear_thinking_20251015 with "
                   "keep \"all\" may stand there",
                   edit_path);
  }
  return {};
}

Result<void> check_cache_control(const ordered_json* control) {
  if (control == nullptr) return {};
  if (!control->is_object() || control->value("type", ordered_json()) != "ephemeral")
    return invalid_field("cache_control", "must be {\"type\": \"ephemeral\"}");
  return {};
}

void read_service(RequestFields& fields) {
  if (const std::string tier = fields.string("service_tier", "auto"); tier != "auto" && tier != "standard_only")
    fields.reject("service_tier", fmt::format("must be \"auto\" or \"standard_only\", not {}", quoted_value(tier)));
  if (const std::string speed = fields.string("speed", "standard"); speed != "standard")
    fields.refuse("speed", "there is one speed here, \"standard\"");
  if (const ordered_json* servers = fields.get("mcp_servers");
      servers != nullptr && !(servers->is_array() && servers->empty()))
    fields.refuse("mcp_servers", "this server calls no other servers; run the tools yourself");
  fields.refuse("stop", "use stop_sequences");
  fields.refuse("container", "this server runs no code");
  fields.refuse("diagnostics", "GET /debug/prefix?request=ID says where a prompt left what was cached");
  fields.refuse("inference_geo", "the answer is computed where this server runs");
  fields.refuse("output_format", "say in the messages what form the answer should have");
  fields.refuse("fallbacks", "name one model");
  fields.refuse("thread", "send the whole conversation");
  fields.refuse("compaction", "nothing is summarised here; send what the model should read");
}

}  // namespace

Result<MessagesRequest> parse_messages(const ordered_json& body, Purpose purpose) {
  RequestFields fields(body);
  MessagesRequest request;
  ChatRequest& chat = request.chat;
  chat.model = fields.string("model", "");
  chat.stream = fields.boolean("stream", false);
  const auto max_tokens = fields.optional_integer("max_tokens", 0, kTokensMax);
  if (!max_tokens && purpose == Purpose::kAnswer)
    fields.reject("max_tokens", "is missing: say how many tokens the answer may have at most");
  request.answers = max_tokens != 0;
  chat.generate.max_tokens = static_cast<int32_t>(std::max<int64_t>(1, max_tokens.value_or(1)));
  read_stop_sequences(fields, chat.generate.stop);
  read_service(fields);
  const ordered_json* messages = fields.get("messages");
  if (messages == nullptr) fields.reject("messages", "is missing");
  for (const auto* name :
       {"system", "tools", "tool_choice", "thinking", "output_config", "context_management", "cache_control"})
    fields.get(name);
  read_generation_params(fields, chat.generate);
  read_tool_call_parsing(fields, chat);
  CAIRN_TRY_VOID(fields.finish());

  CAIRN_TRY_VOID(check_cache_control(fields.get("cache_control")));
  CAIRN_TRY_VOID(read_context_management(fields.get("context_management")));
  CAIRN_TRY_VOID(read_thinking(fields.get("thinking"), request));
  CAIRN_TRY_VOID(read_output_config(fields.get("output_config"), chat.reasoning));
  CAIRN_TRY(Conversation conversation, read_conversation(fields.get("system"), *messages));
  CAIRN_TRY(chat.input.tools, read_tools(fields.get("tools")));
  CAIRN_TRY_VOID(read_tool_choice(fields.get("tool_choice"), chat));
  if (!conversation.prefill.empty() && chat.tool_use == ToolUse::kRequired)
    return invalid_field("tool_choice",
                         "wants an answer that begins with a call, but the last message has begun it with text");
  chat.input.messages = std::move(conversation.messages);
  chat.prefill = std::move(conversation.prefill);
  return request;
}

}  // namespace cairn::api::anthropic
