/// What is asked of an answer in a conversation, whoever asks: a request of any protocol, or a command.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "chat/chat_template.h"
#include "engine/request.h"
#include "grammar/call_grammar.h"
#include "grammar/grammar_source.h"

namespace cairn::chat {

enum class ToolUse {
  kAuto,
  kNone,      ///< the tools are in the prompt, and no call may begin
  kRequired,  ///< the answer begins with a call
};

/// What is asked of the model's thinking. Unset: as the template has it.
struct ReasoningOptions {
  std::optional<bool> enabled{};
  std::string effort{};                 ///< "minimal" ... "xhigh", "max", or empty
  std::optional<int32_t> tokens_max{};  ///< the thinking is closed at so many tokens
  bool as_content = false;              ///< it stands in the answer as the model writes it
  bool hidden = false;                  ///< the model thinks, and nobody is shown what; as_content does not hold then
};

/// What the arguments of custom tools are held to, by the tool's name.
using CustomInputs = std::map<std::string, grammar::CallInput, std::less<>>;

/// What an answer is held to.
using AnswerForm = std::optional<grammar::GrammarSource>;

struct AnswerRequest {
  ChatInput input{};
  /// Functions that may be called though they stand in the conversation, not among input.tools in front of it.
  nlohmann::ordered_json found_tools = nlohmann::ordered_json::array();
  std::string prefill{};  ///< the answer's beginning, as text: the client has it, and the model goes on from it
  ToolUse tool_use = ToolUse::kAuto;
  std::string tool_name{};  ///< with kRequired: this one, empty: any
  bool parallel_calls = true;
  std::optional<bool> lenient_calls{};  ///< whether calls in another dress are read (OfferedTools); unset: they are
  ReasoningOptions reasoning{};
  CustomInputs custom_inputs{};  ///< what the one argument of some of the tools is held to
  AnswerForm form{};
  engine::GenerateRequest generate{};  ///< everything but what planning the answer gives (plan.h)
};

}  // namespace cairn::chat
