#include "api/responses/request.h"

#include <algorithm>

#include "api/chat/messages.h"
#include "api/errors.h"
#include "api/params/answer_form.h"
#include "api/params/generation_params.h"
#include "api/params/llama_options.h"
#include "api/params/request_fields.h"
#include "api/responses/transcript.h"
#include "api/serialization/json_text.h"
#include "base/system/random_id.h"
#include "base/text/printable.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

// What this server cannot do, and hints that change nothing about the answer here.
void read_others(RequestFields& fields) {
  fields.only("background", false, "read the answer from the connection that asks for it");
  fields.refuse("prompt", "send its text as instructions and input");
  fields.refuse("conversation", "use previous_response_id, or send the whole conversation as input");
  fields.refuse("context_management", "send a shorter input when the context is full");
  fields.refuse("moderation", "this server judges nothing");
  fields.accept({"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
                 "service_tier", "client_metadata", "max_tool_calls", "access_programs"});
}

void read_truncation(RequestFields& fields) {
  const ordered_json* value = fields.get("truncation");
  if (value != nullptr && *value != "disabled" && *value != "auto")
    fields.reject("truncation", fmt::format("must be \"disabled\" or \"auto\", not {}", quoted_value(*value)));
  if (value != nullptr && *value == "auto")
    fields.tell("truncation", "cuts nothing here: too long an input is refused");
}

void read_include(RequestFields& fields, ResponsesRequest& request) {
  const ordered_json* include = fields.get("include");
  if (include == nullptr) return;
  if (!include->is_array()) return fields.reject("include", "must be an array of strings");
  for (const auto& what : *include) {
    if (!what.is_string()) return fields.reject("include", "must be an array of strings");
    request.chat.generate.sampling.logprobs |= what == "message.output_text.logprobs";
    request.encrypted_reasoning |= what == "reasoning.encrypted_content";
  }
}

// Who wants the most likely tokens sent wants their log-probabilities, also without `include`.
void read_top_logprobs(RequestFields& fields, sampling::SamplingParams& sampling) {
  sampling.top_logprobs = static_cast<int32_t>(fields.integer("top_logprobs", 0, 0, sampling::kTopLogprobsMax));
  sampling.logprobs |= sampling.top_logprobs > 0;
}

// OpenAI's clients show the summary of thinking, so that the thinking itself is sent there unless they want none.
Result<void> read_effort(RequestFields& fields, ResponsesRequest& request) {
  const ordered_json* value = fields.object("reasoning");
  if (value == nullptr) return {};
  RequestFields reasoning(fields.context(), *value, "reasoning.");
  const std::string effort = reasoning.string("effort", "");
  if (!effort.empty() && !set_effort(effort, request.chat.reasoning)) {
    reasoning.reject("effort", fmt::format("must be one of none, minimal, low, medium, high, xhigh, max, not {}",
                                           quoted_value(effort)));
  }
  request.raw_reasoning = reasoning.string("summary", "") == "none";
  request.chat.reasoning.hidden = reasoning.boolean("exclude", false);  // OpenRouter's
  reasoning.accept({"generate_summary", "context", "mode"});
  return reasoning.finish();
}

Result<void> read_text(RequestFields& fields, chat::AnswerForm& form) {
  const ordered_json* value = fields.object("text");
  if (value == nullptr) return {};
  RequestFields text(fields.context(), *value, "text.");
  read_response_format(text, "format", form);
  text.accept({"verbosity"});
  refuse_misplaced_form(text, *value, "text.format");
  return text.finish();
}

Result<void> read_stream_options(RequestFields& fields) {
  const ordered_json* value = fields.object("stream_options");
  if (value == nullptr) return {};
  RequestFields options(fields.context(), *value, "stream_options.");
  options.accept({"include_obfuscation", "include_usage"});
  return options.finish();
}

Result<void> read_tools(RequestFields& fields, ResponsesRequest& request) {
  const ordered_json* tools = fields.get("tools");
  if (tools == nullptr) return {};
  CAIRN_TRY(ToolList list, read_tool_list(*tools, "tools"));
  request.chat.custom_inputs = std::move(list.custom_inputs);
  if (!list.functions.empty()) request.chat.input.tools = std::move(list.functions);
  request.offered = std::move(list.offered);
  request.left_out.merge(list.left_out);
  return {};
}

// The name that the model sees of a tool that a choice names.
Result<std::string> chosen_name(const ordered_json& choice, const std::string& path, const OfferedTools& offered) {
  const auto name = choice.find("name");
  if (name == choice.end() || !name->is_string()) return invalid_field(path + ".name", "is missing or not a string");
  const auto name_space = choice.find("namespace");
  const bool inside = name_space != choice.end() && name_space->is_string();
  std::string offered_as =
      offered_name(inside ? name_space->get_ref<const std::string&>() : "", name->get_ref<const std::string&>());
  if (!offered.contains(offered_as))
    return invalid_field(path + ".name", fmt::format("{} is none of the tools", quoted_value(*name)));
  return offered_as;
}

// Only some of the tools: the model does not see the others.
Result<void> read_allowed_tools(const ordered_json& choice, ResponsesRequest& request) {
  const auto allowed = choice.find("tools");
  if (allowed == choice.end() || !allowed->is_array()) return invalid_field("tool_choice.tools", "must be an array");
  std::set<std::string> names;
  for (size_t i = 0; i < allowed->size(); ++i) {
    const auto& tool = (*allowed)[i];
    const std::string path = fmt::format("tool_choice.tools[{}]", i);
    if (!tool.is_object()) return invalid_field(path, fmt::format("must be an object, not {}", json_kind(tool)));
    if (!tool.contains("type") || (tool["type"] != "function" && tool["type"] != "custom")) continue;
    CAIRN_TRY(std::string name, chosen_name(tool, path, request.offered));
    names.insert(std::move(name));
  }
  ordered_json kept = ordered_json::array();
  for (auto& function : request.chat.input.tools)
    if (names.contains(function["function"]["name"].get_ref<const std::string&>())) kept.push_back(std::move(function));
  request.chat.input.tools = kept.empty() ? ordered_json(nullptr) : std::move(kept);
  std::erase_if(request.offered, [&](const auto& tool) { return !names.contains(tool.first); });
  if (choice.contains("mode") && choice["mode"] == "required" && !names.empty())
    request.chat.tool_use = chat::ToolUse::kRequired;
  return {};
}

// Choices among tools that are not run here leave it to the model.
Result<void> read_tool_choice(RequestFields& fields, ResponsesRequest& request) {
  ChatRequest& chat = request.chat;
  chat.parallel_calls = fields.boolean("parallel_tool_calls", true);
  const ordered_json* choice = fields.get("tool_choice");
  if (choice == nullptr || *choice == "auto") return {};
  const ordered_json& tools = chat.input.tools;
  if (*choice == "none") {
    chat.tool_use = chat::ToolUse::kNone;
  } else if (*choice == "required") {
    chat.tool_use = chat::ToolUse::kRequired;
    if (tools.is_null())
      return invalid_field("tool_choice", "is \"required\", but there are no functions among the tools");
  } else if (choice->is_object() && choice->contains("type") && (*choice)["type"].is_string()) {
    if ((*choice)["type"] == "allowed_tools") return read_allowed_tools(*choice, request);
    if ((*choice)["type"] != "function" && (*choice)["type"] != "custom") return {};
    CAIRN_TRY(chat.tool_name, chosen_name(*choice, "tool_choice", request.offered));
    chat.tool_use = chat::ToolUse::kRequired;
  } else {
    return invalid_field("tool_choice",
                         fmt::format("must be \"none\", \"auto\", \"required\" or {{\"type\": \"function\", "
                                     "\"name\": ...}}, not {}",
                                     quoted_value(*choice)));
  }
  return {};
}

void read_store(RequestFields& fields, ResponsesRequest& request) {
  request.store = fields.boolean("store", true);
  request.previous_id = fields.string("previous_response_id", "");
}

std::string_view id_prefix(const std::string& type) {
  if (type == "message") return "msg_";
  if (type == "reasoning") return "rs_";
  if (type == "custom_tool_call") return "ctc_";
  return type == "function_call" ? "fc_" : "item_";
}

// The item that GET /v1/responses/ID/input_items lists: with type, id and parts.
ordered_json whole_item(const ordered_json& item) {
  ordered_json whole = item;
  const std::string type = item_type(item);
  whole["type"] = type;
  if (!whole.contains("id") || !whole["id"].is_string() || whole["id"] == "") whole["id"] = random_id(id_prefix(type));
  if (type == "message" && whole.contains("content") && whole["content"].is_string()) {
    ordered_json text = {{"type", whole["role"] == "assistant" ? "output_text" : "input_text"},
                         {"text", whole["content"]}};
    whole["content"] = ordered_json::array({std::move(text)});
  }
  return whole;
}

// The items of `input`, with what they refer to in their place.
Result<ordered_json> read_items(const ordered_json& input, const StoredItems& stored) {
  if (input.is_string()) return ordered_json::array({{{"role", "user"}, {"content", input}}});
  if (!input.is_array())
    return invalid_field("input", fmt::format("must be a string or an array of items, not {}", json_kind(input)));
  if (input.size() > kItemsMax)
    return fail_at("input", Code::kTooLarge, "input has {} items, over the {} of a conversation", input.size(),
                   kItemsMax);
  ordered_json items = ordered_json::array();
  for (size_t i = 0; i < input.size(); ++i) {
    const ordered_json& item = input[i];
    if (!item.is_object() || item_type(item) != "item_reference") {
      items.push_back(item);
      continue;
    }
    const std::string path = fmt::format("input[{}].id", i);
    if (!item.contains("id") || !item["id"].is_string()) return invalid_field(path, "is missing or not a string");
    auto found = stored.item(item["id"].get_ref<const std::string&>());
    if (!found) return fail_at(path, found.error().code, "{}", found.error().message);
    items.push_back(std::move(*found));
  }
  return items;
}

Result<void> read_conversation(RequestFields& fields, const StoredItems& stored, ResponsesRequest& request) {
  Transcript transcript;
  if (fields.get("instructions") != nullptr) {
    const std::string instructions = fields.string("instructions", "");
    if (!instructions.empty()) transcript.add_instructions(instructions);
  }
  const ordered_json* input = fields.get("input");
  CAIRN_TRY_VOID(fields.finish());
  if (!request.previous_id.empty()) {
    auto history = stored.history(request.previous_id);
    if (!history) return fail_at("previous_response_id", history.error().code, "{}", history.error().message);
    for (const auto& item : *history) CAIRN_TRY_VOID(transcript.add(item, "previous_response_id"));
  }
  ordered_json items = ordered_json::array();
  if (input != nullptr) {
    CAIRN_TRY(items, read_items(*input, stored));
  } else if (request.previous_id.empty()) {
    return invalid_field("input", "is missing");
  }
  for (size_t i = 0; i < items.size(); ++i) CAIRN_TRY_VOID(transcript.add(items[i], fmt::format("input[{}]", i)));
  if (transcript.messages().empty()) return invalid_field("input", "holds nothing to answer");
  request.left_out.insert(transcript.left_out().begin(), transcript.left_out().end());
  request.chat.input.messages = transcript.take_messages();
  ToolList found = transcript.take_found();
  for (auto& function : found.functions)
    if (!request.offered.contains(function["function"]["name"].get_ref<const std::string&>()))
      request.chat.found_tools.push_back(std::move(function));
  request.offered.merge(found.offered);
  request.input = ordered_json::array();
  if (request.store)
    for (const auto& item : items) request.input.push_back(whole_item(item));
  return {};
}

// A float's shortest decimal: 0.7, not 0.699999988.
double decimal(float value) { return std::stod(fmt::format("{}", value)); }

ordered_json echo_of(const ordered_json& body, const ResponsesRequest& request) {
  const auto given = [&](const char* name, ordered_json missing) {
    return body.contains(name) && !body[name].is_null() ? body[name] : std::move(missing);
  };
  const engine::GenerateRequest& generate = request.chat.generate;
  ordered_json reasoning = {{"effort", nullptr}, {"summary", nullptr}};
  reasoning.update(given("reasoning", ordered_json::object()));
  ordered_json text = {{"format", {{"type", "text"}}}};
  text.update(given("text", ordered_json::object()));
  if (text["format"].is_null()) text["format"] = {{"type", "text"}};
  return {
      {"background", false},
      {"instructions", given("instructions", nullptr)},
      {"max_output_tokens", generate.max_tokens < 0 ? ordered_json(nullptr) : ordered_json(generate.max_tokens)},
      {"max_tool_calls", given("max_tool_calls", nullptr)},
      {"parallel_tool_calls", request.chat.parallel_calls},
      {"previous_response_id", request.previous_id.empty() ? ordered_json(nullptr) : ordered_json(request.previous_id)},
      {"prompt_cache_key", given("prompt_cache_key", nullptr)},
      {"reasoning", std::move(reasoning)},
      {"safety_identifier", given("safety_identifier", nullptr)},
      {"service_tier", "default"},
      {"store", request.store},
      {"temperature", decimal(generate.sampling.temperature)},
      {"text", std::move(text)},
      {"tool_choice", given("tool_choice", "auto")},
      {"tools", given("tools", ordered_json::array())},
      {"top_logprobs", generate.sampling.top_logprobs},
      {"top_p", decimal(generate.sampling.top_p)},
      {"truncation", "disabled"},
      {"user", given("user", nullptr)},
      {"metadata", given("metadata", ordered_json::object())}};
}

}  // namespace

Result<ordered_json> nothing_kept(const std::string& id) {
  return fail(Code::kNotFound, "nothing \"{}\" is kept", cut_text(id, kQuotedBytesMax));
}

Result<ResponsesRequest> parse_responses(RequestContext& context, const ordered_json& body, const StoredItems& stored) {
  RequestFields fields(context, body);
  ResponsesRequest request;
  ChatRequest& chat = request.chat;
  chat.prompt_field = "input";
  read_others(fields);
  chat.model = fields.string("model", "");
  chat.stream = fields.boolean("stream", false);
  read_generation_params(fields, chat.generate);
  request.return_progress = fields.boolean("return_progress", false);
  request.timings_per_token = fields.boolean("timings_per_token", false);
  chat.generate.reports_prefill = request.return_progress || request.timings_per_token;
  chat.generate.max_tokens = read_token_limit(fields).value_or(-1);
  read_truncation(fields);
  read_include(fields, request);
  read_top_logprobs(fields, chat.generate.sampling);
  read_store(fields, request);
  chat.generate.keep_on_disk = chat.generate.keep_on_disk && request.store;
  read_reasoning(fields, chat.reasoning);
  CAIRN_TRY_VOID(read_effort(fields, request));
  CAIRN_TRY_VOID(read_text(fields, request.chat.form));
  refuse_answer_form(fields, "use text.format, or POST /v1/chat/completions");
  CAIRN_TRY_VOID(read_stream_options(fields));
  read_template_variables(fields, chat.input.variables);
  read_tool_call_parsing(fields, chat);
  CAIRN_TRY_VOID(read_tools(fields, request));
  CAIRN_TRY_VOID(read_tool_choice(fields, request));
  CAIRN_TRY_VOID(read_conversation(fields, stored, request));
  request.echo = echo_of(body, request);
  return request;
}

}  // namespace cairn::api::responses
