#include "chat/answer/prompt.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/hash.h"
#include "base/text/json.h"
#include "chat/answer/reasoning.h"
#include "chat/chat_prompt.h"
#include "chat/completion_prompt.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

int32_t set_reasoning(const ChatModel& model, AnswerRequest& request) {
  return resolve_reasoning(request.reasoning, model.chat_template.capabilities(), model.template_defaults,
                           model.context_tokens, request.input.variables);
}

/// Puts the model's own messages in front of the conversation's, and its system message, unless the conversation has
/// one.
void add_own_messages(const TemplateDefaults& defaults, ordered_json& messages) {
  const auto is_system = [](const ordered_json& message) {
    const auto role = message.find("role");
    return role != message.end() && (*role == "system" || *role == "developer");
  };
  if (defaults.system.empty() && defaults.messages.empty()) return;
  auto rest = messages.begin();
  while (rest != messages.end() && is_system(*rest)) ++rest;
  ordered_json all = ordered_json::array();
  if (!defaults.system.empty() && std::ranges::none_of(messages, is_system))
    all.push_back({{"role", "system"}, {"content", defaults.system}});
  all.insert(all.end(), messages.begin(), rest);
  all.insert(all.end(), defaults.messages.begin(), defaults.messages.end());
  all.insert(all.end(), rest, messages.end());
  messages = std::move(all);
}

/// Longer schemas are not shown to the model.
constexpr size_t kShownSchemaBytesMax = 16 << 10;

/// What asks for JSON in words; empty: the answer is not held to JSON.
std::string json_instruction_of(const AnswerForm& form) {
  using enum grammar::GrammarSource::Kind;
  if (!form || !form->triggers.empty() || (form->kind != kJsonObject && form->kind != kJsonSchema)) return {};
  std::string text = "Answer with JSON alone, without any text around it.";
  if (form->kind == kJsonObject) return text;
  const std::string schema = json_text(form->schema);
  if (schema.size() <= kShownSchemaBytesMax) text += " It must match this JSON schema:\n" + schema;
  return text;
}

/// Adds the text to the first message, if that is a system message, or else puts one in front.
void add_instruction(const std::string& text, ordered_json& messages) {
  if (text.empty()) return;
  if (messages.empty() || messages[0].value("role", "") != "system") {
    messages.insert(messages.begin(), ordered_json{{"role", "system"}, {"content", text}});
    return;
  }
  ordered_json& content = messages[0]["content"];
  if (content.is_array()) {
    content.push_back({{"type", "text"}, {"text", text}});
  } else {
    const std::string before = content.is_string() ? content.get<std::string>() : std::string();
    content = before.empty() ? text : before + "\n\n" + text;
  }
}

/// The conversation's messages with those of the model, and with what its defaults have the server add.
void complete_messages(const TemplateDefaults& defaults, AnswerRequest& request) {
  add_own_messages(defaults, request.input.messages);
  if (defaults.json_instruction) add_instruction(json_instruction_of(request.form), request.input.messages);
}

/// Appends the text that the answer goes on from, and what must come before an answer's text. Returns the text.
Result<std::string> add_prefill(const ChatModel& model, const AnswerRequest& request, ChatPrompt& prompt) {
  Prefill prefill = prefill_of(model.output_format, request.prefill, prompt.text);
  // What a client writes is text, also where it looks like a special token.
  CAIRN_TRY_VOID(append_text(model.tokenizer, prefill.before, {.parse_special = true}, prompt.tokens));
  CAIRN_TRY_VOID(append_text(model.tokenizer, prefill.text, {}, prompt.tokens));
  prompt.text += prefill.before;
  return std::move(prefill.text);
}

/// Appends the beginning of a call that is required.
Result<void> force_call(const ChatModel& model, const AnswerRequest& request, AnswerPrompt& prompt) {
  OutputContext& output = prompt.output;
  ForcedPrefix first = forced_prefix_of(model.output_format, request, output.prompt);
  const auto begin = static_cast<std::ptrdiff_t>(prompt.tokens.size());
  const std::span<const ByteRange> foreign(&first.name, first.name.begin < first.name.end ? 1 : 0);
  CAIRN_TRY_VOID(append_text(model.tokenizer, first.text, {.parse_special = true, .foreign = foreign}, prompt.tokens));
  output.forced_prefix = std::move(first.text);
  output.forced_tokens.assign(prompt.tokens.begin() + begin, prompt.tokens.end());
  prompt.forced_opening = std::move(first.opening);
  return {};
}

/// How the answer is read, whose prompt is this text.
OutputContext output_context(const ChatModel& model, const AnswerRequest& request, std::string_view prompt) {
  OutputContext output;
  output.format = model.output_format;
  output.hides_reasoning = request.reasoning.hidden;
  const bool as_content = request.reasoning.as_content && !output.hides_reasoning;
  if (as_content && output.format.reasoning != ReasoningFormat::kHarmony)
    output.format.reasoning = ReasoningFormat::kNone;
  output.model = model.model_name;
  output.prompt = prompt.substr(prompt.size() - std::min(prompt.size(), kPromptTailBytes));
  output.template_stop_strings = chat_stops(model);
  if (request.input.tools.is_null() || request.tool_use == ToolUse::kNone) {
    output.format.tools = ToolFormat::kNone;
    return output;
  }
  output.tools = request.input.tools;
  output.tools.insert(output.tools.end(), request.found_tools.begin(), request.found_tools.end());
  if (request.lenient_calls.value_or(true))
    output.offered = {std::make_shared<const ordered_json>(output.tools), request.parallel_calls ? kCallsMax : 1};
  return output;
}

}  // namespace

CacheScope turn_scope(const ChatModel& model, const engine::GenerateRequest& generate) {
  const std::string key = fmt::format("{:016x}{:016x}", model.fingerprint, generate.salt);
  return {.id = hash64(model.template_source, hash64(key)), .tenant = generate.tenant};
}

Result<AnswerPrompt> answer_prompt(const ChatModel& model, AnswerRequest& request, SampledTurnCache* turns) {
  const int32_t reasoning_tokens_max = set_reasoning(model, request);
  complete_messages(model.template_defaults, request);
  CAIRN_TRY(ChatPrompt prompt, chat_prompt(model, request.input, turns, turn_scope(model, request.generate)));
  CAIRN_TRY(std::string prefill, add_prefill(model, request, prompt));
  AnswerPrompt made{.tokens = std::move(prompt.tokens),
                    .replayed = prompt.replayed,
                    .output = output_context(model, request, prompt.text),
                    .reasoning_tokens_max = reasoning_tokens_max};
  made.output.prefill = std::move(prefill);
  const bool calls = !request.input.tools.is_null() && request.tool_use != ToolUse::kNone;
  if (calls && request.tool_use == ToolUse::kRequired) CAIRN_TRY_VOID(force_call(model, request, made));
  return made;
}

Result<std::string> answer_prompt_text(const ChatModel& model, AnswerRequest& request) {
  set_reasoning(model, request);
  complete_messages(model.template_defaults, request);
  CAIRN_TRY(std::string text, render_chat(model, request.input));
  const Prefill prefill = prefill_of(model.output_format, request.prefill, text);
  return text + prefill.before + prefill.text;
}

}  // namespace cairn::chat
