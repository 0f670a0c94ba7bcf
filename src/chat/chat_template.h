/// A model's chat template: turns messages into the text that the model was trained to continue.
///
/// Templates differ in what they accept, and none takes OpenAI's message shape as it is. What a template supports is
/// found out once (template_probe.h). render() then makes the conversation fit (history.h) and each message have the
/// form that the template takes:
///   - text parts of a content list are joined with line ends, if the template takes only strings;
///   - a string becomes one text part, if the template takes only lists;
///   - what looks like one of the format's own tags in a call's arguments or a tool's result is escaped, for DSML.
/// Nothing is left out silently.
#pragma once

#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/tool_calls/format.h"
#include "jinja/jinja.h"

namespace cairn {

/// The input of a template. `messages` and `tools` are JSON in OpenAI's shape, already validated.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nullptr;  ///< array or null
  bool add_generation_prompt = true;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< further variables (chat_template_kwargs)
  /// Messages of the assistant, ascending, whose content stands for the whole turn: their calls only say what the
  /// results after them answer (chat_prompt.cpp).
  std::vector<size_t> sampled{};
};

/// What a server gives to its templates where a request says nothing.
struct TemplateDefaults {
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  std::optional<bool> reasoning{};  ///< whether models think; unset: those whose templates have a switch do
};

/// What a template showed of the probe conversations, each of which has a form that some templates refuse or drop.
struct ChatCapabilities {
  bool string_content = true;       ///< a user message whose content is a string
  bool list_content = false;        ///< one whose content is [{"type":"text","text":...}]
  bool system_role = true;          ///< a system message before the user's
  bool several_systems = true;      ///< two of them
  bool system_with_results = true;  ///< one in a conversation that ends with a tool's message
  bool later_system = true;         ///< one after the first user's message
  bool repeated_user = true;        ///< two user's messages in a row
  bool repeated_assistant = true;   ///< two answers in a row
  bool assistant_first = true;      ///< an answer before the first user's message
  bool no_user = true;              ///< a conversation without a user's message
  bool empty_answers = true;        ///< an answer without a text

  bool tools = false;             ///< the names of the given tools
  bool calls = false;             ///< an assistant's calls, with their arguments
  bool results = false;           ///< a tool's message after a call
  bool parallel_calls = false;    ///< several calls of one message
  bool text_beside_calls = true;  ///< the text of a message with calls
  bool text_before_calls = true;  ///< an answer in front of a message with calls
  bool unanswered_calls = true;   ///< a call before the user's next message, and before an answer
  bool orphan_results = false;    ///< a tool's message without a call
  bool user_after_result = true;  ///< a user's message after a tool's
  bool any_call_id = true;        ///< calls whose ids are other than nine letters and digits
  bool object_arguments = false;  ///< arguments given as an object, printed other than as Python would
  bool string_arguments = false;  ///< arguments that are no JSON
  bool bare_properties = true;    ///< tools with parameters that have no description
  bool type_lists = true;         ///< tools with parameters that may have several types
  bool thinking_field = false;    ///< an assistant's `thinking`, and not its `reasoning_content`

  bool thinks_in_tags = false;  ///< writes </think>, so that its variable `thinking` is the switch of that
  bool effort = false;          ///< uses the variable reasoning_effort
  /// Minimum context of its effort "max", which is "high" in smaller ones; 0: it has no such effort.
  int32_t max_effort_tokens = 0;
};

/// Immutable; thread-safe.
class ChatTemplate {
 public:
  /// `source` is tokenizer.chat_template; if empty, ChatML is used and is_fallback() is true. bos and eos are the texts
  /// of those tokens.
  static Result<ChatTemplate> create(std::string_view source, std::string bos, std::string eos);

  /// Own text, which may spell control tokens, is what the template writes, the texts of bos and eos, and a message's
  /// role if it is a known one; all other strings of the input are foreign. Errors: kInvalidArgument or kTooLarge with
  /// the template's line, its own words (raise_exception) or what failed in it, and what it was given; content parts
  /// that the template does not support, `at` is their place in the messages.
  Result<Rendering> render(const ChatInput& input, std::time_t now) const;

  const ChatCapabilities& capabilities() const { return capabilities_; }
  bool is_fallback() const { return is_fallback_; }

 private:
  ChatTemplate(JinjaTemplate parsed, std::string bos, std::string eos, bool is_fallback);
  /// Renders the messages as given, without converting them.
  Result<Rendering> render_plain(nlohmann::ordered_json messages, const nlohmann::ordered_json& tools,
                                 bool add_generation_prompt, const nlohmann::ordered_json& variables, std::time_t now,
                                 const JinjaLimits& limits) const;
  /// Renders a probe's messages (template_probe.h).
  Result<Rendering> render_probe(nlohmann::ordered_json messages, const nlohmann::ordered_json& tools) const;

  JinjaTemplate template_;
  std::string bos_;
  std::string eos_;
  bool is_fallback_ = false;
  bool is_dsml_ = false;
  bool is_harmony_ = false;
  bool reads_functions_ = false;  ///< tools as the text of a variable `functions`
  const tool_call::ToolStyle* style_ = nullptr;
  ChatCapabilities capabilities_;
};

}  // namespace cairn
