/// How an answer in a conversation is made: what the model goes on from, what its tokens are held to, and how they are
/// read. One plan for the server, frames and the commands.
#pragma once

#include <memory>

#include "chat/answer/prompt.h"
#include "chat/answer/request.h"
#include "chat/chat_model.h"
#include "chat/constraints/chat_constraint.h"
#include "chat/sampled_turns.h"
#include "grammar/grammar_source.h"

namespace cairn::chat {

/// What is kept between answers. Each may be null: then nothing is.
struct AnswerCaches {
  SampledTurnCache* turns = nullptr;
  grammar::GrammarCache* grammars = nullptr;
};

struct AnswerPlan {
  AnswerPrompt prompt;
  ChatConstraintRules rules;
};

/// `request.input` gets the template's variables that it does not have, and `request.generate` all but the constraint:
/// the prompt, the stop strings, how text is rendered. Errors: the template's; kInvalidArgument, at the field of what
/// the answer cannot be held to.
Result<AnswerPlan> plan_answer(const ChatModel& model, AnswerRequest& request, const AnswerCaches& caches);

/// What holds an answer to the plan: each choice has its own.
std::shared_ptr<engine::DecodingConstraint> make_constraint(const ChatModel& model, const AnswerPlan& plan);

}  // namespace cairn::chat
