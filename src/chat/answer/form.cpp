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
    source.tools = called_tools(output.tools, request.custom_inputs, /*required=*/false);
  }
  CAIRN_TRY(AnswerGrammarRules held, answer_rules(model, source, grammars));
  held.begun = spell(tool_call::harmony_begun(output.prompt), true);
  return held;
}

/// The token with which a model may begin a call in place of an answer that has a form; kNoToken: several begin one.
TokenId call_opener(const ChatModel& model, const tool_call::ToolStyle& style) {
  if (style.block_starts.empty() || style.block_starts[0].known_names_only) return kNoToken;
  return only_token(model.tokenizer, style.block_starts[0].text);
}

/// What an answer is held to that is a call or follows the form, where a call begins with text. Errors: the form cannot
/// be held to.
Result<AnswerGrammarRules> call_or_form_rules(const ChatModel& model, const AnswerRequest& request,
                                              const OutputContext& output, const tool_call::ToolStyle& style,
                                              grammar::GrammarCache* grammars) {
  const auto spell = [vocabulary = model.constraints.vocabulary()](std::string_view text, bool opens) {
    return vocabulary->spell(text, opens);
  };
  const bool prompt_opens = !style.prompt_open.empty() && output.prompt.ends_with(style.prompt_open);
  const std::string begun = prompt_opens ? spell(style.prompt_open, true) : std::string();
  grammar::GrammarSource source = *request.form;
  source.frame = {.answer_opens = {prompt_opens ? begun + spell(style.text_recipient, false) : std::string()}};
  source.forms = tool_call::call_forms(style, spell);
  source.tools = called_tools(output.tools, request.custom_inputs, /*required=*/false);
  CAIRN_TRY(AnswerGrammarRules held, answer_rules(model, source, grammars));
  held.begun = begun;
  return held;
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
  const auto* style = tool_call::find_style(output.format.tools);
  const bool harmony = output.format.reasoning == ReasoningFormat::kHarmony;
  if (calls && request.tool_use == ToolUse::kRequired) {
    // The answer is a call, which leaves the form nothing to hold; it is one all the same.
    CAIRN_TRY_VOID(answer_rules(model, *request.form, grammars));
    return {};
  }
  const TokenId call_open = calls && style != nullptr ? call_opener(model, *style) : kNoToken;
  if (calls) rules.one_call = true;  // or text that follows the grammar: what comes behind a call would not
  const bool thinks = rules.reasoning_tokens_max != 0;
  const bool together = calls && style != nullptr && call_open == kNoToken;
  CAIRN_TRY(AnswerGrammarRules held, harmony    ? harmony_rules(model, request, output, thinks, grammars)
                                     : together ? call_or_form_rules(model, request, output, *style, grammars)
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
