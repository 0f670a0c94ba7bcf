/// A conversation to go on with, as every protocol's request ends up: what the templates and the engine take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/chat/tool_forms.h"
#include "api/params/answer_form.h"
#include "chat/chat_template.h"
#include "engine/engine.h"

namespace cairn::api {

enum class ToolUse {
  kAuto,
  kNone,      ///< the tools are in the prompt, and no call may begin
  kRequired,  ///< the answer begins with a call
};

/// What the client asks of the model's thinking. Unset: as the template has it.
struct ReasoningOptions {
  std::optional<bool> enabled{};
  std::string effort{};                 ///< "minimal" ... "xhigh", "max", or empty
  std::optional<int32_t> tokens_max{};  ///< the thinking is closed at so many tokens
  bool as_content = false;              ///< it stands in the answer as the model writes it
};

struct ChatRequest {
  std::string model;
  int choices = 1;
  bool stream = false;
  ChatInput input;
  /// Functions that may be called though they stand in the conversation, not among input.tools in front of it.
  nlohmann::ordered_json found_tools = nlohmann::ordered_json::array();
  std::string prefill;  ///< the answer's beginning, as text: the client has it, and the model goes on from it
  ToolUse tool_use = ToolUse::kAuto;
  std::string tool_name;  ///< with kRequired: this one, empty: any
  bool parallel_calls = true;
  std::optional<bool>
      lenient_calls{};  ///< whether calls in another dress are read (OfferedTools); unset: as the server does
  ReasoningOptions reasoning;
  CustomInputs custom_inputs{};  ///< what the one argument of some of the tools is held to
  AnswerForm form;               ///< what the answer is held to
  bool stored = true;            ///< its calls may be kept in the file of --store
  int64_t kept_bytes = 0;        ///< about what the answer's serializer keeps of the request until its end
  GenerateRequest generate;      ///< everything but the prompt, the id, the tenant and the constraint
};

}  // namespace cairn::api
