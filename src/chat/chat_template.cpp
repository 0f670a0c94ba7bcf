#include "chat/chat_template.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_set>
#include <utility>

#include "base/text/json.h"
#include "base/text/printable.h"
#include "chat/history.h"
#include "chat/template_probe.h"
#include "chat/tool_calls/dsml_escape.h"
#include "chat/tool_calls/format.h"

namespace cairn::chat {
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

constexpr std::string_view kProbeWord = "cairnmessage";
constexpr std::string_view kHarmonyChannel = "<|channel|>";

// Roles of one conversation that are looked for in the template; messages of others are the user's.
constexpr size_t kRolesProbedMax = 8;

// Minimum context of DeepSeek V4's effort "max".
constexpr int32_t kMaxEffortTokens = 393'216;

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

// gpt-oss' template refuses an answer that has its channels' marks as text.
void write_harmony(ordered_json& message) {
  if (!has_role(message, "assistant")) return;
  for (const char* field : {"content", "reasoning_content"}) {
    const auto found = message.find(field);
    if (found == message.end() || !found->is_string()) continue;
    auto& text = found->get_ref<std::string&>();
    for (size_t at = text.find(kHarmonyChannel); at != std::string::npos; at = text.find(kHarmonyChannel, at))
      text.replace(at, kHarmonyChannel.size(), "<channel>");
  }
}

// The thinking for templates that know it as `thinking`. Beside a text and calls, gpt-oss' has no place for it.
void write_thinking(ordered_json& message) {
  const auto thinking = message.find("reasoning_content");
  if (thinking == message.end() || message.contains("thinking")) return;
  const auto content = message.find("content");
  const bool has_text = content != message.end() && content->is_string() && *content != "";
  if (!has_text || !message.contains("tool_calls")) message["thinking"] = ordered_json(*thinking);
}

std::string date_text(const char* format, std::time_t now) {
  std::tm local{};
  std::array<char, 64> text{};
  if (localtime_r(&now, &local) == nullptr) return {};
  return {text.data(), std::strftime(text.data(), text.size(), format, &local)};
}

// What a template was given, for an error: "3 messages (system, user, tool) and 2 tools".
std::string description_of(const ChatInput& input) {
  constexpr size_t kRolesNamedMax = 8;
  std::string roles;
  const size_t count = input.messages.size();
  for (size_t i = count - std::min(count, kRolesNamedMax); i < count; ++i) {
    const ordered_json& message = input.messages[i];
    const bool has_role = message.is_object() && message.contains("role") && message["role"].is_string();
    if (!roles.empty()) roles += ", ";
    roles += has_role ? printable(message["role"].get_ref<const std::string&>()) : "no role";
    if (has_role && message.contains("tool_calls")) roles += " with calls";
  }
  return fmt::format("{} messages ({}{}) and {} tools", count, count > kRolesNamedMax ? "the last ones: " : "", roles,
                     input.tools.is_array() ? input.tools.size() : 0);
}

}  // namespace

ChatTemplate::ChatTemplate(jinja::JinjaTemplate parsed, std::string bos, std::string eos, bool is_fallback)
    : template_(std::move(parsed)), bos_(std::move(bos)), eos_(std::move(eos)), is_fallback_(is_fallback) {}

std::string_view trimmed_template(std::string_view source) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  while (source.ends_with('\0')) source.remove_suffix(1);
  while (source.starts_with('\0')) source.remove_prefix(1);
  if (source.starts_with(kMark)) source.remove_prefix(kMark.size());
  return source;
}

Result<ChatTemplate> ChatTemplate::create(std::string_view source, std::string bos, std::string eos) {
  source = trimmed_template(source);
  const bool is_fallback = source.empty();
  CAIRN_TRY(jinja::JinjaTemplate parsed, jinja::JinjaTemplate::parse(is_fallback ? kChatMl : source));
  ChatTemplate made(std::move(parsed), std::move(bos), std::move(eos), is_fallback);
  const auto has = [&](std::string_view text) { return source.find(text) != std::string_view::npos; };
  made.is_dsml_ = has(tool_call::kDsmlMark);
  made.is_harmony_ = has(kHarmonyChannel);
  const auto plain = made.render_probe(ordered_json::array({{{"role", "user"}, {"content", "x"}}}), nullptr);
  made.reads_functions_ = !plain && plain.error().message == "'functions' is undefined";
  const auto shows_nothing = [&](const ordered_json& content) {
    const auto shown = made.render_probe(ordered_json::array({{{"role", "user"}, {"content", content}}}), nullptr);
    return shown && shown->text.find(kProbeWord) == std::string::npos;
  };
  made.shows_messages_ = !(shows_nothing(kProbeWord) && shows_nothing(text_parts(kProbeWord)));
  made.capabilities_ = probe_template(
      [&](ordered_json messages, const ordered_json& tools) { return made.render_probe(std::move(messages), tools); });
  made.capabilities_.effort = has("reasoning_effort");
  made.capabilities_.thinks_in_tags = has("</think>");
  const auto styles = tool_call::tool_styles();
  const auto style = std::ranges::find_if(styles, [&](const auto* each) { return each->matches(source); });
  if (style != styles.end()) made.style_ = *style;
  if (made.capabilities_.effort && made.style_ != nullptr && made.style_->format == ToolFormat::kDsmlV4)
    made.capabilities_.max_effort_tokens = kMaxEffortTokens;
  return made;
}

Result<jinja::Rendering> ChatTemplate::render_plain(ordered_json messages, const ordered_json& tools,
                                                    bool add_generation_prompt, const ordered_json& variables,
                                                    std::time_t now, const jinja::JinjaLimits& limits) const {
  ordered_json all = {{"messages", std::move(messages)},
                      {"documents", nullptr},
                      {"add_generation_prompt", add_generation_prompt},
                      {"bos_token", bos_},
                      {"eos_token", eos_},
                      {"date_string", date_text("%d %b %Y", now)},
                      {"datetime", date_text("%b %d %Y", now)}};
  // Without tools the variable is undefined: templates that take None for a list are many.
  if (!tools.is_null()) all["tools"] = tools;
  if (reads_functions_) all["functions"] = tools.is_null() ? std::string() : json_text(tools, 2);
  if (variables.is_object())
    for (const auto& [name, value] : variables.items()) all[name] = value;
  std::unordered_set<const ordered_json*> own;
  for (const char* name : {"bos_token", "eos_token"})
    if (!variables.is_object() || !variables.contains(name)) own.insert(&all[name]);
  find_roles(all["messages"], own);
  return template_.render(all, [&](const ordered_json& string) { return own.contains(&string); }, now, limits);
}

Result<jinja::Rendering> ChatTemplate::render_probe(ordered_json messages, const ordered_json& tools) const {
  return render_plain(std::move(messages), tools, false, nullptr, 0, kProbeLimits);
}

Result<jinja::Rendering> ChatTemplate::render(const ChatInput& input, std::time_t now) const {
  if (!input.messages.is_array()) return fail(Code::kInvalidArgument, "messages must be an array");
  ChatInput fitted = input;
  std::map<std::string, bool> roles;  // shown by the template, of those that are in this conversation
  const auto shows_role = [&](const std::string& role) {
    if (const auto known = roles.find(role); known != roles.end()) return known->second;
    if (roles.size() == kRolesProbedMax) return false;
    const auto probe = [&](ordered_json messages, const ordered_json& tools) {
      return render_probe(std::move(messages), tools);
    };
    return roles[role] = probe_role(probe, capabilities_, role);
  };
  fit_history(fitted, {capabilities_, style_, shows_role});
  for (size_t i = 0; i < fitted.messages.size(); ++i) {
    ordered_json& message = fitted.messages[i];
    if (!message.is_object()) continue;
    if (const auto content = message.find("content"); content != message.end()) {
      if (content->is_array() && !capabilities_.list_content) {
        CAIRN_TRY(*content, plain_text(*content, content_place(i)));
      } else if (content->is_string() && !capabilities_.string_content) {
        *content = text_parts(content->get_ref<const std::string&>());
      }
    }
    if (is_harmony_) write_harmony(message);
    if (capabilities_.thinking_field) write_thinking(message);
    if (!is_dsml_) continue;
    escape_arguments(message);
    escape_result(message);
  }
  const std::string given = description_of(fitted);
  auto rendered =
      render_plain(std::move(fitted.messages), fitted.tools, fitted.add_generation_prompt, fitted.variables, now, {});
  if (rendered) return rendered;
  const Error& error = rendered.error();
  return fail_at("messages", error.code,
                 "the model's chat template cannot render this conversation: {}{}{}. It was given {}. Start the server "
                 "with --chat-template FILE to give the model another template",
                 error.at, error.at.empty() ? "" : ": ", error.message, given);
}

}  // namespace cairn::chat
