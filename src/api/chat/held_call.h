/// What calls are held to, in the model's format: the tools' names, their parameters' schemas where they are strict,
/// and else the format's own way of writing arguments.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/chat/tool_forms.h"
#include "api/service.h"
#include "chat/constraints/held_calls.h"

namespace cairn::api {

/// The beginning of a block of calls that is forced on the model; empty: it begins calls as it likes.
struct ForcedOpening {
  std::string before{};  ///< the name, in the format's words
  std::string name{};    ///< the client's text; empty: the model names the tool
  std::string behind{};
};

/// What calls of `tools`, in OpenAI's shape, are made from, without the forms in which they are written.
std::vector<grammar::CalledTool> called_tools(const nlohmann::ordered_json& tools, const CustomInputs& custom_inputs);

/// `tools`: all that may be called, in OpenAI's shape. `prompt_opens`: the prompt has begun one, unless a name that is
/// none of the tools' comes. Errors: kInvalidArgument, at the field of a strict tool that cannot be held to.
Result<HeldCallsRules> held_calls(Service& service, const LoadedModel& model, const nlohmann::ordered_json& tools,
                                  const CustomInputs& custom_inputs, const ForcedOpening& forced, bool prompt_opens);

}  // namespace cairn::api
