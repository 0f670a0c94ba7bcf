/// From the form that a request asks for to what holds its answers to it.
#pragma once

#include <vector>

#include "api/params/answer_form.h"
#include "api/service.h"
#include "chat/constraints/answer_grammar.h"
#include "chat/constraints/held_calls.h"
#include "engine/request.h"

namespace cairn::api {

/// Compiles the form, on the caller's thread. Errors: kInvalidArgument, at the form's field.
Result<AnswerGrammarRules> answer_rules(Service& service, const LoadedModel& model, const grammar::GrammarSource& form);

/// The same for a form with triggers. Errors: kInvalidArgument (the grammar begins with none of them).
Result<HeldCallsRules> lazy_rules(Service& service, const LoadedModel& model, const grammar::GrammarSource& form);

/// Holds each of a completion's answers to the form, if there is one, from its first token.
Result<void> hold_to_form(Service& service, const LoadedModel& model, const AnswerForm& form,
                          std::vector<GenerateRequest>& requests);

}  // namespace cairn::api
