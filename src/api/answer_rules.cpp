#include "api/answer_rules.h"

#include <memory>
#include <utility>

namespace cairn::api {
namespace {

class LazyConstraint final : public DecodingConstraint {
 public:
  LazyConstraint(const HeldCallsRules& rules, const Tokenizer& tokenizer) : held_(rules, tokenizer) {}
  void begin(NextTokenRule& next) override { held_.begin(next); }
  void token(TokenId token, std::string_view, NextTokenRule& next) override {
    next.banned.clear();
    held_.token(token, /*thought=*/false, {}, next);
  }

 private:
  HeldCalls held_;
};

}  // namespace

Result<AnswerGrammarRules> answer_rules(Service& service, const LoadedModel& model,
                                        const grammar::GrammarSource& form) {
  auto made = service.grammars().get(form);
  if (!made && made.error().code == Code::kInternal) return std::unexpected(std::move(made).error());
  if (!made) return invalid_field(form.field, made.error().message);
  return AnswerGrammarRules{.grammar = *std::move(made), .vocabulary = model.constraints->vocabulary()};
}

Result<HeldCallsRules> lazy_rules(Service& service, const LoadedModel& model, const grammar::GrammarSource& form) {
  CAIRN_TRY(AnswerGrammarRules made, answer_rules(service, model, form));
  const std::vector<std::string_view> texts(form.triggers.begin(), form.triggers.end());
  HeldCallsRules rules{.grammar = std::move(made.grammar),
                       .vocabulary = std::move(made.vocabulary),
                       .completing = std::make_shared<const TextBan>(*model.tokenizer, texts),
                       .ends_answer = true};
  for (const std::string& trigger : form.triggers) {
    rules.starts.push_back({trigger, rules.vocabulary->spell(trigger, true)});
    grammar::Matcher matcher(rules.grammar);
    if (matcher.push(rules.starts.back().spelled) < rules.starts.back().spelled.size())
      return invalid_field("grammar_triggers", "must be texts that the grammar begins with, as " + trigger + " is not");
  }
  return rules;
}

Result<void> hold_to_form(Service& service, const LoadedModel& model, const AnswerForm& form,
                          std::vector<GenerateRequest>& requests) {
  if (!form) return {};
  if (!form->triggers.empty()) {
    CAIRN_TRY(const HeldCallsRules lazy, lazy_rules(service, model, *form));
    for (GenerateRequest& request : requests)
      request.constraint = std::make_shared<LazyConstraint>(lazy, *model.tokenizer);
    return {};
  }
  CAIRN_TRY(const AnswerGrammarRules rules, answer_rules(service, model, *form));
  for (GenerateRequest& request : requests) request.constraint = std::make_shared<CompletionConstraint>(rules);
  return {};
}

}  // namespace cairn::api
