#include "api/answer_rules.h"

#include <memory>
#include <utility>

namespace cairn::api {

Result<AnswerGrammarRules> answer_rules(Service& service, const LoadedModel& model,
                                        const grammar::GrammarSource& form) {
  auto made = service.grammars().get(form);
  if (!made && made.error().code == Code::kInternal) return std::unexpected(std::move(made).error());
  if (!made) return invalid_field(form.field, made.error().message);
  return AnswerGrammarRules{.grammar = *std::move(made), .vocabulary = service.answer_vocabulary(model)};
}

Result<void> hold_to_form(Service& service, const LoadedModel& model, const AnswerForm& form,
                          std::vector<GenerateRequest>& requests) {
  if (!form) return {};
  CAIRN_TRY(const AnswerGrammarRules rules, answer_rules(service, model, *form));
  for (GenerateRequest& request : requests) request.constraint = std::make_shared<CompletionConstraint>(rules);
  return {};
}

}  // namespace cairn::api
