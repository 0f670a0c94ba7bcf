/// What a call that a request has forced is held to: the tool's name and its parameters' schema.
#pragma once

#include <optional>

#include "api/chat/request.h"
#include "chat/constraints/answer_grammar.h"
#include "grammar/grammar_source.h"
#include "loader/registry.h"

namespace cairn::api {

/// What follows the forced beginning of a call (forced_prefix_of in run.cpp), up to the end of its arguments. `tools`:
/// all that may be called, in OpenAI's shape. Nothing if a tool is not `strict`, for formats whose arguments are no
/// JSON, and where several tools may be called in a format that parts name and arguments by a control token: no grammar
/// of bytes has those.
std::optional<grammar::GrammarSource> held_call(const LoadedModel& model, const ChatRequest& request,
                                                const nlohmann::ordered_json& tools,
                                                const AnswerVocabulary& vocabulary);

}  // namespace cairn::api
