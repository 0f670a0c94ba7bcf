/// A conversation as a chat template gets it, and what a template can show of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace cairn::chat {

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

/// What templates are given where a request says nothing.
struct TemplateDefaults {
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  std::optional<bool> reasoning{};  ///< whether models think; unset: those whose templates have a switch do
  std::string system{};             ///< a system message; empty: none
  bool json_instruction = false;    ///< where an answer is held to JSON, a system message asks for JSON too
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();  ///< in front of every conversation's own
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

}  // namespace cairn::chat
