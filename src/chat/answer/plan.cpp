#include "chat/answer/plan.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "chat/answer/calls.h"
#include "chat/answer/form.h"
#include "chat/tool_calls/format.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

ChatConstraintRules rules_of(const ChatModel& model, const AnswerRequest& request, const AnswerPrompt& prompt) {
  ChatConstraintRules rules;
  const bool has_tools = !request.input.tools.is_null();
  rules.reasoning_tokens_max = prompt.reasoning_tokens_max;
  rules.one_call = has_tools && !request.parallel_calls;
  rules.stops_on_loop = request.generate.max_tokens < 0 && !request.generate.ignore_eos;
  if (has_tools && request.tool_use == ToolUse::kNone) rules.ban = model.constraints.call_ban();
  return rules;
}

/// Errors: the parameters of a strict tool cannot be held to.
Result<void> add_call_rules(const ChatModel& model, const AnswerRequest& request, const AnswerPrompt& prompt,
                            grammar::GrammarCache* grammars, ChatConstraintRules& rules) {
  const OutputContext& output = prompt.output;
  const auto* style = tool_call::find_style(output.format.tools);
  if (style == nullptr || output.tools.empty()) return {};
  ordered_json tools = output.tools;
  if (!request.tool_name.empty()) {
    std::erase_if(tools.get_ref<ordered_json::array_t&>(),
                  [&](const ordered_json& tool) { return tool["function"].value("name", "") != request.tool_name; });
  }
  const ForcedOpening& forced = prompt.forced_opening;
  const bool prompt_opens =
      forced.before.empty() && !style->prompt_open.empty() && output.prompt.ends_with(style->prompt_open);
  CAIRN_TRY(rules.calls, held_calls(model, tools, request.custom_inputs, request.tool_use == ToolUse::kRequired, forced,
                                    prompt_opens, grammars));
  rules.calls->before = output.prompt + output.prefill;  // a start may begin in the prompt, as Harmony's do
  return {};
}

}  // namespace

Result<AnswerPlan> plan_answer(const ChatModel& model, AnswerRequest& request, const AnswerCaches& caches) {
  CAIRN_TRY(AnswerPrompt prompt, answer_prompt(model, request, caches.turns));
  ChatConstraintRules rules = rules_of(model, request, prompt);
  CAIRN_TRY_VOID(add_form_rules(model, request, prompt.output, caches.grammars, rules));
  CAIRN_TRY_VOID(add_call_rules(model, request, prompt, caches.grammars, rules));
  const OutputContext& output = prompt.output;
  engine::GenerateRequest& generate = request.generate;
  generate.prompt = prompt.tokens;
  generate.render_special = true;
  generate.text_at_start = output.prefill.empty() && output.forced_prefix.empty();
  generate.stop.insert(generate.stop.end(), output.template_stop_strings.begin(), output.template_stop_strings.end());
  return AnswerPlan{std::move(prompt), std::move(rules)};
}

std::shared_ptr<engine::DecodingConstraint> make_constraint(const ChatModel& model, const AnswerPlan& plan) {
  const OutputContext& output = plan.prompt.output;
  OutputParser parser = output.parser();
  std::vector<Part> parts;
  parser.feed(output.prefill + output.forced_prefix, parts);
  if (!output.forced_prefix.empty()) parser.expect_call();
  return std::make_shared<ChatConstraint>(plan.rules, std::move(parser), model.tokenizer, plan.prompt.tokens.back());
}

}  // namespace cairn::chat
