/// What calls are held to, in the model's format: the tools' names, their parameters' schemas where they are strict or
/// a call is required, and else the format's own way of writing arguments.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "chat/answer/beginning.h"
#include "chat/answer/request.h"
#include "chat/chat_model.h"
#include "chat/constraints/held_calls.h"
#include "grammar/grammar_source.h"

namespace cairn::chat {

/// What calls of `tools`, in OpenAI's shape, are made from, without the forms in which they are written. `required`: a
/// call is, and its arguments follow the schema also where a tool is not strict.
std::vector<grammar::CalledTool> called_tools(const nlohmann::ordered_json& tools, const CustomInputs& custom_inputs,
                                              bool required);

/// `tools`: all that may be called, in OpenAI's shape. `prompt_opens`: the prompt has begun one, unless a name that is
/// none of the tools' comes. `grammars` may be null. Errors: kInvalidArgument, at the field of a strict tool that
/// cannot be held to, or at tools where calls in the model's format cannot have a tool's name.
Result<HeldCallsRules> held_calls(const ChatModel& model, const nlohmann::ordered_json& tools,
                                  const CustomInputs& custom_inputs, bool required, const ForcedOpening& forced,
                                  bool prompt_opens, grammar::GrammarCache* grammars);

}  // namespace cairn::chat
