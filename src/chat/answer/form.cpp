#include "chat/answer/form.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/answer/calls.h"
#include "chat/answer/reader.h"
#include "chat/tool_calls/call_form.h"
#include "chat/tool_calls/format.h"

namespace cairn::chat {
namespace {

class LazyConstraint final : public engine::DecodingConstraint {
 public:
  LazyConstraint(const HeldCallsRules& rules, const tokenizer::Tokenizer& tokenizer) : held_(rules, tokenizer) {}
  void begin(engine::NextTokenRule& next) override { held_.begin(next); }
  void token(TokenId token, std::string_view, engine::NextTokenRule& next) override {
    next.banned.clear();
    held_.token(token, /*thought=*/false, {}, next);
  }

 private:
  HeldCalls held_;
};

std::unexpected<Error> refuse(const std::string& field, std::string_view why) {
  return fail_at(field, Code::kInvalidArgument, "{} {}", field, why);
}

/// What holds an answer to a form with triggers. Errors: the grammar begins with none of them.
Result<HeldCallsRules> lazy_rules(const ChatModel& model, const grammar::GrammarSource& form,
                                  grammar::GrammarCache* grammars) {
  CAIRN_TRY(AnswerGrammarRules made, answer_rules(model, form, grammars));
  const std::vector<std::string_view> texts(form.triggers.begin(), form.triggers.end());
  HeldCallsRules rules{.grammar = std::move(made.grammar),
                       .vocabulary = std::move(made.vocabulary),
                       .completing = std::make_shared<const sampling::TextBan>(model.tokenizer, texts),
                       .ends_answer = true};
  for (const std::string& trigger : form.triggers) {
    rules.starts.push_back({trigger, rules.vocabulary->spell(trigger, true)});
    grammar::Matcher matcher(rules.grammar);
    if (matcher.push(rules.starts.back().spelled) < rules.starts.back().spelled.size())
      return refuse("grammar_triggers", "must be texts that the grammar begins with, as " + trigger + " is not");
  }
  return rules;
}

/// What an answer in Harmony's messages is held to. Errors: the form cannot be held to.
Result<AnswerGrammarRules> harmony_rules(const ChatModel& model, const AnswerRequest& request,
                                         const OutputContext& output, bool thinks, grammar::GrammarCache* grammars) {
  const auto spell = [vocabulary = model.constraints.vocabulary()](std::string_view text, bool opens) {
    return vocabulary->spell(text, opens);
  };
  grammar::GrammarSource source = *request.form;
  source.frame = tool_call::harmony_frame(spell, thinks);
  if (output.format.tools != ToolFormat::kNone) {
    source.forms = tool_call::harmony_calls(spell);
    source.tools = called_tools(output.tools, request.custom_inputs);
  }
  CAIRN_TRY(AnswerGrammarRules held, answer_rules(model, source, grammars));
  held.begun = spell(tool_call::harmony_begun(output.prompt), true);
  return held;
}

/// The token with which a model may begin a call in place of an answer that has a form. Errors: it cannot be told.
Result<TokenId> call_opener(const ChatModel& model, const AnswerRequest& request, const OutputFormat& format) {
  const auto* style = tool_call::find_style(format.tools);
  TokenId opener = kNoToken;
  if (style != nullptr && !style->block_starts.empty() && !style->block_starts[0].known_names_only)
    opener = only_token(model.tokenizer, style->block_starts[0].text);
  const bool harmony = format.reasoning == ReasoningFormat::kHarmony;
  if ((opener == kNoToken && !harmony) || request.tool_use == ToolUse::kRequired)
    return refuse(request.form->field,
                  "is not available beside tools in this model's format of calls, nor where a call is required; leave "
                  "out the tools, or set tool_choice to none");
  return opener;
}

}  // namespace

Result<AnswerGrammarRules> answer_rules(const ChatModel& model, const grammar::GrammarSource& form,
                                        grammar::GrammarCache* grammars) {
  auto made = grammars == nullptr ? grammar::compile(form) : grammars->get(form);
  if (!made && made.error().code == Code::kInternal) return std::unexpected(std::move(made).error());
  if (!made) return refuse(form.field, made.error().message);
  return AnswerGrammarRules{.grammar = *std::move(made), .vocabulary = model.constraints.vocabulary()};
}

Result<void> hold_to_form(const ChatModel& model, const AnswerForm& form, grammar::GrammarCache* grammars,
                          std::span<engine::GenerateRequest> requests) {
  if (!form) return {};
  if (!form->triggers.empty()) {
    CAIRN_TRY(const HeldCallsRules lazy, lazy_rules(model, *form, grammars));
    for (engine::GenerateRequest& request : requests)
      request.constraint = std::make_shared<LazyConstraint>(lazy, model.tokenizer);
    return {};
  }
  CAIRN_TRY(const AnswerGrammarRules rules, answer_rules(model, *form, grammars));
  for (engine::GenerateRequest& request : requests) request.constraint = std::make_shared<CompletionConstraint>(rules);
  return {};
}

Result<void> add_form_rules(const ChatModel& model, const AnswerRequest& request, const OutputContext& output,
                            grammar::GrammarCache* grammars, ChatConstraintRules& rules) {
  if (!request.form) return {};
  const bool calls = output.format.tools != ToolFormat::kNone;
  if (!request.form->triggers.empty()) {
    if (calls) return refuse("grammar_lazy", "is not available beside tools, whose calls follow a grammar already");
    CAIRN_TRY(rules.calls, lazy_rules(model, *request.form, grammars));
    return {};
  }
  TokenId call_open = kNoToken;
  if (calls) {
    CAIRN_TRY(call_open, call_opener(model, request, output.format));
    rules.one_call = true;  // or text that follows the grammar: what comes behind a call would not
  }
  const bool thinks = rules.reasoning_tokens_max != 0;
  CAIRN_TRY(AnswerGrammarRules held, output.format.reasoning == ReasoningFormat::kHarmony
                                         ? harmony_rules(model, request, output, thinks, grammars)
                                         : answer_rules(model, *request.form, grammars));
  held.begun += request.prefill.substr(std::min(request.prefill.find_first_not_of(" \t\r\n"), request.prefill.size()));
  if (grammar::Matcher matcher(held.grammar); matcher.push(held.begun) < held.begun.size())
    return refuse(request.form->field, "does not fit how the last message has begun the answer");
  if (thinks && held.begun.empty())
    held.thinking_open = thinking_opener(model.tokenizer, output.format.reasoning, output.prompt);
  held.call_open = call_open;
  rules.grammar = std::move(held);
  return {};
}

}  // namespace cairn::chat
