/// From the form that a request asks for to what holds its answers to it.
#pragma once

#include <span>

#include "chat/answer/request.h"
#include "chat/chat_model.h"
#include "chat/constraints/chat_constraint.h"
#include "grammar/grammar_source.h"

namespace cairn::chat {

struct OutputContext;

/// Compiles the form, on the caller's thread, unless `grammars`, which may be null, has it. Errors: kInvalidArgument,
/// at the form's field.
Result<AnswerGrammarRules> answer_rules(const ChatModel& model, const grammar::GrammarSource& form,
                                        grammar::GrammarCache* grammars);

/// Holds each of a completion's answers to the form, if there is one, from its first token. Errors: kInvalidArgument,
/// at the form's field; at that of its triggers, with none of which the grammar begins.
Result<void> hold_to_form(const ChatModel& model, const AnswerForm& form, grammar::GrammarCache* grammars,
                          std::span<engine::GenerateRequest> requests);

/// Adds the form, if there is one, to what an answer in a conversation is held to. Errors: the form cannot be held to,
/// or not together with what else is asked for.
Result<void> add_form_rules(const ChatModel& model, const AnswerRequest& request, const OutputContext& output,
                            grammar::GrammarCache* grammars, ChatConstraintRules& rules);

}  // namespace cairn::chat
