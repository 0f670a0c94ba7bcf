#include "chat/chat_template.h"

#include <algorithm>
#include <initializer_list>
#include <unordered_set>
#include <utility>

#include "base/text/json.h"
#include "chat/generic_tools.h"
#include "chat/tool_calls/dsml_escape.h"
#include "chat/tool_calls/format.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

// ChatML, for models without a template.
constexpr std::string_view kChatMl = R"({%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}
{%- elif message.content %}{{ message.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('\n') }}
{%- endif -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%})";

// Marker words of the probes: they occur in a rendering only if the template showed them.
constexpr std::string_view kUserWord = "cairnuser";
constexpr std::string_view kSystemWord = "cairnsystem";
constexpr std::string_view kToolWord = "cairntool";
constexpr std::string_view kKeyWord = "cairnkey";

// Minimum context of DeepSeek V4's effort "max".
constexpr int32_t kMaxEffortTokens = 393'216;

// Limits for probes: a probe is tiny, and a template that needs more than this for it is not supported.
constexpr JinjaLimits kProbeLimits{.steps_max = 1'000'000, .output_bytes_max = 4 << 20, .memory_bytes_max = 16 << 20};

ordered_json message_of(std::string_view role, ordered_json content) {
  return {{"role", role}, {"content", std::move(content)}};
}

ordered_json text_parts(std::string_view text) {
  return ordered_json::array({ordered_json{{"type", "text"}, {"text", text}}});
}

bool shows(const Result<Rendering>& rendered, std::string_view word) {
  return rendered.has_value() && rendered->text.find(word) != std::string::npos;
}

// Known roles. Templates write `<|` + role + `|>`, so a known role counts as the template's own text, whoever sent it.
constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

void find_roles(const ordered_json& messages, std::unordered_set<const ordered_json*>& roles) {
  if (!messages.is_array()) return;
  for (const ordered_json& message : messages) {
    const auto role = message.is_object() ? message.find("role") : message.end();
    if (message.is_object() && role != message.end() && role->is_string() &&
        std::ranges::find(kRoles, role->get_ref<const std::string&>()) != std::end(kRoles))
      roles.insert(&*role);
  }
}

// The text of a content, which is a string or a list of text parts.
Result<std::string> plain_text(const ordered_json& content, const std::string& at) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const ordered_json& part = content[i];
    const auto found = part.is_object() ? part.find("text") : part.end();
    if (!part.is_object() || part.value("type", ordered_json("text")) != "text" || found == part.end() ||
        !found->is_string())
      return fail_at(at + "[" + std::to_string(i) + "]", Code::kInvalidArgument,
                     "this model's chat template takes text only; send parts of type 'text'");
    if (i > 0) text += '\n';
    text += found->get_ref<const std::string&>();
  }
  return text;
}

std::string content_place(size_t message) { return "messages[" + std::to_string(message) + "].content"; }

bool has_role(const ordered_json& message, std::string_view role) {
  return message.is_object() && message.contains("role") && message["role"] == role;
}

// Removes a leading system message and puts its text before that of the first user message.
Result<void> fold_system(ordered_json& messages) {
  if (messages.empty() || !has_role(messages[0], "system") || !messages[0].contains("content")) return {};
  size_t user = 1;
  while (user < messages.size() && !has_role(messages[user], "user")) ++user;
  if (user == messages.size() || !messages[user].contains("content")) return {};
  const ordered_json& content = messages[0]["content"];
  if (!content.is_string() && !content.is_array()) return {};
  CAIRN_TRY(std::string text, plain_text(content, content_place(0)));
  ordered_json& user_content = messages[user]["content"];
  if (user_content.is_array()) {
    user_content.insert(user_content.begin(), ordered_json{{"type", "text"}, {"text", text + "\n\n"}});
  } else if (user_content.is_string()) {
    user_content = text + "\n\n" + user_content.get<std::string>();
  } else {
    return {};
  }
  messages.erase(messages.begin());
  return {};
}

void shape_arguments(ordered_json& message, bool as_object) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (ordered_json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    ordered_json& function = call["function"];
    const auto arguments = function.find("arguments");
    if (arguments == function.end()) continue;
    if (as_object && arguments->is_string()) {
      // A model's arguments may be invalid JSON; then the template gets them as a string.
      auto parsed = read_json(arguments->get_ref<const std::string&>());
      if (parsed && parsed->is_object()) *arguments = std::move(*parsed);
    } else if (!as_object && !arguments->is_string()) {
      *arguments = arguments->dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    }
  }
}

ordered_json escaped_value(const ordered_json& value) {
  if (value.is_string()) return tool_call::escape_dsml(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  ordered_json escaped = value.is_array() ? ordered_json::array() : ordered_json::object();
  for (const auto& [key, inner] : value.items()) {
    if (value.is_array())
      escaped.push_back(escaped_value(inner));
    else
      append_member(escaped, tool_call::escape_dsml(key), escaped_value(inner));
  }
  return escaped;
}

void escape_arguments(ordered_json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (ordered_json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    const auto arguments = call["function"].find("arguments");
    if (arguments == call["function"].end() || !arguments->is_object()) continue;
    ordered_json escaped = ordered_json::object();
    for (const auto& [key, value] : arguments->items())
      append_member(escaped, tool_call::escape_dsml_attribute(key), escaped_value(value));
    *arguments = std::move(escaped);
  }
}

// Escapes tags in a tool's result, so that it cannot end itself and continue as something else.
void escape_result(ordered_json& message) {
  constexpr std::string_view kEnd = "</tool_result>";
  const auto content = message.find("content");
  if (!has_role(message, "tool") || content == message.end() || !content->is_string()) return;
  auto& text = content->get_ref<std::string&>();
  std::string escaped;
  size_t written = 0;
  for (size_t at = text.find(kEnd); at != std::string::npos; at = text.find(kEnd, written)) {
    escaped.append(text, written, at - written).append("&lt;");
    written = at + 1;
  }
  if (written > 0) text = escaped.append(text, written);
}

}  // namespace

ChatTemplate::ChatTemplate(JinjaTemplate parsed, std::string bos, std::string eos, bool is_fallback)
    : template_(std::move(parsed)), bos_(std::move(bos)), eos_(std::move(eos)), is_fallback_(is_fallback) {}

Result<ChatTemplate> ChatTemplate::create(std::string_view source, std::string bos, std::string eos) {
  const bool is_fallback = source.empty();
  CAIRN_TRY(JinjaTemplate parsed, JinjaTemplate::parse(is_fallback ? kChatMl : source));
  ChatTemplate made(std::move(parsed), std::move(bos), std::move(eos), is_fallback);
  made.capabilities_ = made.probe();
  made.is_dsml_ = source.find(tool_call::kDsmlMark) != std::string_view::npos;
  made.capabilities_.effort = source.find("reasoning_effort") != std::string_view::npos;
  const auto styles = tool_call::tool_styles();
  const auto style = std::ranges::find_if(styles, [&](const auto* each) { return each->matches(source); });
  const bool has_format = style != styles.end();
  if (made.capabilities_.effort && has_format && (*style)->format == ToolFormat::kDsmlV4)
    made.capabilities_.max_effort_tokens = kMaxEffortTokens;
  made.capabilities_.generic_tools = !made.capabilities_.tools && !has_format;
  return made;
}

Result<Rendering> ChatTemplate::render_plain(ordered_json messages, const ordered_json& tools,
                                             bool add_generation_prompt, const ordered_json& variables, std::time_t now,
                                             const JinjaLimits& limits) const {
  ordered_json all = {{"messages", std::move(messages)},
                      {"tools", tools},
                      {"documents", nullptr},
                      {"add_generation_prompt", add_generation_prompt},
                      {"bos_token", bos_},
                      {"eos_token", eos_}};
  if (variables.is_object())
    for (const auto& [name, value] : variables.items()) all[name] = value;
  std::unordered_set<const ordered_json*> own;
  for (const char* name : {"bos_token", "eos_token"})
    if (!variables.is_object() || !variables.contains(name)) own.insert(&all[name]);
  find_roles(all["messages"], own);
  return template_.render(all, [&](const ordered_json& string) { return own.contains(&string); }, now, limits);
}

ChatCapabilities ChatTemplate::probe() const {
  const ordered_json none = nullptr;
  const auto render_probe = [&](std::initializer_list<ordered_json> messages, const ordered_json& tools) {
    ordered_json list = ordered_json::array();
    for (const ordered_json& message : messages) list.push_back(message);
    return render_plain(std::move(list), tools, false, none, 0, kProbeLimits);
  };
  ChatCapabilities can;
  const bool shows_string = shows(render_probe({message_of("user", kUserWord)}, none), kUserWord);
  const Result<Rendering> with_list = render_probe({message_of("user", text_parts(kUserWord))}, none);
  // A template that prints the list itself, as Python or as JSON, does not support lists.
  can.list_content = shows(with_list, kUserWord) && !shows(with_list, "'type'") && !shows(with_list, "\"type\"");
  can.string_content = shows_string || !can.list_content;

  const auto content = [&](std::string_view word) {
    return can.string_content ? ordered_json(word) : text_parts(word);
  };
  const ordered_json user = message_of("user", content(kUserWord));
  const ordered_json system = message_of("system", content(kSystemWord));
  // If not even the user's message alone can be rendered, the probes show nothing.
  can.system_role =
      shows(render_probe({system, user}, none), kSystemWord) || !shows(render_probe({user}, none), kUserWord);

  const ordered_json function = {{"name", kToolWord},
                                 {"description", "A tool."},
                                 {"parameters", {{"type", "object"}, {"properties", ordered_json::object()}}}};
  const ordered_json tools = ordered_json::array({ordered_json{{"type", "function"}, {"function", function}}});
  can.tools = shows(render_probe({user}, tools), kToolWord) || shows(render_probe({system, user}, tools), kToolWord);

  ordered_json call = message_of("assistant", content(""));
  call["tool_calls"] =
      ordered_json::array({ordered_json{{"id", "call00001"},
                                        {"type", "function"},
                                        {"function", {{"name", kToolWord}, {"arguments", {{kKeyWord, "value"}}}}}}});
  for (const ordered_json& given : {tools, none}) {
    const Result<Rendering> with_object = render_probe({user, call}, given);
    can.object_arguments |= shows(with_object, kKeyWord) && !shows(with_object, fmt::format("'{}'", kKeyWord));
  }
  return can;
}

Result<Rendering> ChatTemplate::render(const ChatInput& input, std::time_t now) const {
  if (capabilities_.generic_tools && speaks_of_tools(input)) return render(with_generic_tools(input), now);
  ordered_json messages = input.messages;
  if (!messages.is_array()) return fail(Code::kInvalidArgument, "messages must be an array");
  if (!capabilities_.system_role) CAIRN_TRY_VOID(fold_system(messages));
  for (size_t i = 0; i < messages.size(); ++i) {
    ordered_json& message = messages[i];
    if (!message.is_object()) continue;
    if (const auto content = message.find("content"); content != message.end()) {
      if (content->is_array() && !capabilities_.list_content) {
        CAIRN_TRY(*content, plain_text(*content, content_place(i)));
      } else if (content->is_string() && !capabilities_.string_content) {
        *content = text_parts(content->get_ref<const std::string&>());
      }
    }
    shape_arguments(message, capabilities_.object_arguments);
    if (!is_dsml_) continue;
    escape_arguments(message);
    escape_result(message);
  }
  return render_plain(std::move(messages), input.tools, input.add_generation_prompt, input.variables, now, {});
}

}  // namespace cairn
