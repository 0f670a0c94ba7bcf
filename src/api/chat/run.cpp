#include "api/chat/run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/access/principal.h"
#include "api/answer_rules.h"
#include "api/chat/held_call.h"
#include "api/chat/reasoning.h"
#include "api/http/tenant.h"
#include "api/params/choices.h"
#include "base/hash.h"
#include "base/system/random_id.h"
#include "chat/chat_prompt.h"
#include "chat/completion_prompt.h"
#include "chat/constraints/chat_constraint.h"
#include "chat/tool_calls/call_form.h"
#include "chat/tool_calls/format.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

// A template that has changed may want calls written in another way than they were sampled.
CacheScope scope_of(const LoadedModel& model, const GenerateRequest& generate) {
  const std::string key = fmt::format("{:016x}{:016x}", model.fingerprint, generate.salt);
  return {.id = hash64(model.template_source, hash64(key)), .tenant = generate.tenant};
}

/// Ends the thinking that the prompt has begun; empty if it has not.
std::string thinking_close(const LoadedModel& model, const std::string& prompt) {
  const OutputParser parser(model.output_format, nullptr, prompt);
  if (!parser.in_reasoning()) return {};
  const std::string close(parser.reasoning_close());
  return close.starts_with("</") ? "\n" + close + "\n\n" : close;
}

/// Appends the text that the answer goes on from, and what must come before an answer's text. Returns the text.
Result<std::string> add_prefill(const LoadedModel& model, const ChatRequest& request, ChatPrompt& prompt) {
  Prefill prefill = prefill_of(model, request.prefill, prompt.text);
  // What a client writes is text, also where it looks like a special token.
  CAIRN_TRY_VOID(append_text(*model.tokenizer, prefill.before, {.parse_special = true}, prompt.tokens));
  CAIRN_TRY_VOID(append_text(*model.tokenizer, prefill.text, {}, prompt.tokens));
  prompt.text += prefill.before;
  return std::move(prefill.text);
}

/// What `required` or a named tool puts at the answer's beginning.
struct ForcedPrefix {
  std::string text;
  ByteRange name;         ///< of the tool, in `text`: the client has written it
  ForcedOpening opening;  ///< of a block of calls, from its first byte, which the prompt may have written
};

ForcedPrefix forced_prefix_of(const LoadedModel& model, const ChatRequest& request, const std::string& prompt) {
  const auto* style = tool_call::find_style(model.output_format.tools);
  // The name of the only tool need not be left to the model.
  const auto& tools = request.input.tools;
  const std::string name =
      request.tool_name.empty() && tools.size() == 1 ? tools[0]["function"].value("name", "") : request.tool_name;
  if (style == nullptr) return {};
  // The id goes into the prompt: of the same prompt it is the same.
  const std::string id = call_id_of(hash64(prompt), style->id_bytes);
  std::string before = tool_call::forced_opening(*style, {}, 0, id);
  const std::string whole = tool_call::forced_opening(*style, name, 0, id);
  const std::string behind = whole.substr(before.size());  // the name and what follows it
  ForcedOpening opening{.before = before, .name = name, .behind = behind.substr(name.size())};
  // The prompt may have begun the block already.
  if (!style->prompt_open.empty() && prompt.ends_with(style->prompt_open) && before.starts_with(style->prompt_open))
    before.erase(0, style->prompt_open.size());
  before.insert(0, thinking_close(model, prompt));
  const size_t begin = before.size();
  std::string text = before + behind;
  // A space belongs to the token after it, which is the model's to choose.
  while (text.ends_with(' ')) text.pop_back();
  std::string& last = name.empty() ? opening.before : opening.behind;
  while (last.ends_with(' ')) last.pop_back();
  return {std::move(text), {begin, std::min(begin + name.size(), text.size())}, std::move(opening)};
}

TurnRecorder turn_recorder(Service& service, const LoadedModel& model, const ChatRequest& request,
                           std::vector<TokenId> forced_prefix) {
  return [&turns = service.turns(), &tokenizer = *model.tokenizer, scope = scope_of(model, request.generate),
          stored = request.stored, forced_prefix = std::move(forced_prefix)](
             const ChatTurn& turn, std::span<const TokenId> sampled, size_t thinking_end) {
    const auto is_space = [&](TokenId id) {
      return tokenizer.piece(id, true).find_first_not_of(" \t\r\n") == std::string_view::npos;
    };
    // Space that parts thinking and answer belongs to the template.
    if (thinking_end != kNoThinkingEnd && thinking_end > 0)
      while (thinking_end < sampled.size() && is_space(sampled[thinking_end])) ++thinking_end;
    SampledTurn kept{turn, forced_prefix, thinking_end};
    kept.tokens.insert(kept.tokens.end(), sampled.begin(), sampled.end());
    if (thinking_end != kNoThinkingEnd && thinking_end > 0) kept.thinking_end += forced_prefix.size();
    return turns.keep(scope, std::move(kept), stored);
  };
}

ChatConstraintRules rules_of(const LoadedModel& model, const ChatRequest& request, int32_t budget) {
  ChatConstraintRules rules;
  const bool has_tools = !request.input.tools.is_null();
  rules.reasoning_tokens_max = budget;
  rules.one_call = has_tools && !request.parallel_calls;
  rules.stops_on_loop = request.generate.max_tokens < 0 && !request.generate.ignore_eos;
  if (has_tools && request.tool_use == ToolUse::kNone) rules.ban = model.constraints->call_ban();
  return rules;
}

/// Errors: the parameters of a strict tool cannot be held to.
Result<void> add_calls(Service& service, const LoadedModel& model, const ChatRequest& request,
                       const OutputContext& context, const ForcedOpening& forced_opening, ChatConstraintRules& rules) {
  const auto* style = tool_call::find_style(context.format.tools);
  if (style == nullptr || context.tools.empty()) return {};
  ordered_json tools = context.tools;
  if (!request.tool_name.empty()) {
    std::erase_if(tools.get_ref<ordered_json::array_t&>(),
                  [&](const ordered_json& tool) { return tool["function"].value("name", "") != request.tool_name; });
  }
  const bool prompt_opens =
      forced_opening.before.empty() && !style->prompt_open.empty() && context.prompt.ends_with(style->prompt_open);
  // A start may begin in the prompt, as Harmony's do.
  CAIRN_TRY(rules.calls, held_calls(service, model, tools, request.custom_inputs, forced_opening, prompt_opens));
  rules.calls->before = context.prompt + context.prefill;
  return {};
}

/// What an answer in Harmony's messages is held to. Errors: the form cannot be held to.
Result<AnswerGrammarRules> harmony_rules(Service& service, const LoadedModel& model, const ChatRequest& request,
                                         const OutputContext& context, bool thinks) {
  const auto spell = [vocabulary = model.constraints->vocabulary()](std::string_view text, bool opens) {
    return vocabulary->spell(text, opens);
  };
  grammar::GrammarSource source = *request.form;
  source.frame = tool_call::harmony_frame(spell, thinks);
  if (context.format.tools != ToolFormat::kNone) {
    source.forms = tool_call::harmony_calls(spell);
    source.tools = called_tools(context.tools, request.custom_inputs);
  }
  CAIRN_TRY(AnswerGrammarRules held, answer_rules(service, model, source));
  held.begun = spell(tool_call::harmony_begun(context.prompt), true);
  return held;
}

/// The token with which a model may begin a call in place of an answer that has a form. Errors: it cannot be told.
Result<TokenId> call_opener(const LoadedModel& model, const ChatRequest& request, const OutputContext& context) {
  const auto* style = tool_call::find_style(context.format.tools);
  TokenId opener = kNoToken;
  if (style != nullptr && !style->block_starts.empty() && !style->block_starts[0].known_names_only)
    opener = only_token(*model.tokenizer, style->block_starts[0].text);
  const bool harmony = context.format.reasoning == ReasoningFormat::kHarmony;
  if ((opener == kNoToken && !harmony) || request.tool_use == ToolUse::kRequired)
    return invalid_field(request.form->field,
                         "is not available beside tools in this model's format of calls, nor where a call is "
                         "required; leave out the tools, or set tool_choice to none");
  return opener;
}

/// Errors: the form cannot be held to, or not together with what else the request asks for.
Result<void> add_grammar(Service& service, const LoadedModel& model, const ChatRequest& request,
                         const OutputContext& context, ChatConstraintRules& rules) {
  if (!request.form) return {};
  const std::string& field = request.form->field;
  if (!request.form->triggers.empty()) {
    if (context.format.tools != ToolFormat::kNone)
      return invalid_field("grammar_lazy", "is not available beside tools, whose calls follow a grammar already");
    CAIRN_TRY(rules.calls, lazy_rules(service, model, *request.form));
    return {};
  }
  TokenId call_open = kNoToken;
  if (context.format.tools != ToolFormat::kNone) {
    CAIRN_TRY(call_open, call_opener(model, request, context));
    rules.one_call = true;  // or text that follows the grammar: what comes behind a call would not
  }
  const bool harmony = context.format.reasoning == ReasoningFormat::kHarmony;
  CAIRN_TRY(AnswerGrammarRules held,
            harmony ? harmony_rules(service, model, request, context, rules.reasoning_tokens_max != 0)
                    : answer_rules(service, model, *request.form));
  held.begun += request.prefill.substr(std::min(request.prefill.find_first_not_of(" \t\r\n"), request.prefill.size()));
  if (grammar::Matcher matcher(held.grammar); matcher.push(held.begun) < held.begun.size())
    return invalid_field(field, "does not fit how the last message has begun the answer");
  if (rules.reasoning_tokens_max != 0 && held.begun.empty())
    held.thinking_open = thinking_opener(*model.tokenizer, context.format.reasoning, context.prompt);
  held.call_open = call_open;
  rules.grammar = std::move(held);
  return {};
}

/// One request for every choice, each with a constraint of its own.
std::vector<GenerateRequest> constrained_requests(const ChatRequest& request, const std::string& id,
                                                  const ChatPrompt& prompt, const ChatConstraintRules& rules,
                                                  const OutputContext& context, const LoadedModel& model) {
  auto requests = choice_requests(request.generate, id, {prompt.tokens}, request.choices);
  for (GenerateRequest& generate : requests) {
    OutputParser parser = context.parser();
    std::vector<Part> parts;
    parser.feed(context.prefill + context.forced_prefix, parts);
    if (!context.forced_prefix.empty()) parser.expect_call();
    const TokenId last = prompt.tokens.back();
    generate.constraint = std::make_shared<ChatConstraint>(rules, std::move(parser), *model.tokenizer, last);
  }
  return requests;
}

/// What the model goes on from, and how its answer is read.
struct Prepared {
  ChatPrompt prompt;
  OutputContext context;
  std::vector<TokenId> forced_prefix;  ///< of the prompt's tokens, the last: forced on the model
  ForcedOpening forced_opening{};      ///< see ForcedPrefix::opening
  int32_t reasoning_tokens_max = -1;
};

Result<Prepared> prepare(Service& service, const LoadedModel& model, ChatRequest& request) {
  Prepared made;
  made.reasoning_tokens_max =
      resolve_reasoning(request.reasoning, model.chat_template.capabilities(), model.template_defaults,
                        model.engine->context_tokens(), request.input.variables);
  CAIRN_TRY(made.prompt,
            chat_prompt(model.prompt_context(), request.input, &service.turns(), scope_of(model, request.generate)));
  auto& [prompt, context, forced_prefix, forced_opening, budget] = made;
  CAIRN_TRY(context.prefill, add_prefill(model, request, prompt));
  context.format = model.output_format;
  if (request.reasoning.as_content && context.format.reasoning != ReasoningFormat::kHarmony)
    context.format.reasoning = ReasoningFormat::kNone;
  const bool calls = !request.input.tools.is_null() && request.tool_use != ToolUse::kNone;
  if (!calls) context.format.tools = ToolFormat::kNone;
  if (calls) {
    context.tools = request.input.tools;
    context.tools.insert(context.tools.end(), request.found_tools.begin(), request.found_tools.end());
  }
  context.model = model.name;
  if (calls && request.lenient_calls.value_or(service.lenient_calls()))
    context.offered = {std::make_shared<const ordered_json>(context.tools), request.parallel_calls ? kCallsMax : 1};
  context.prompt = prompt.text.substr(prompt.text.size() - std::min(prompt.text.size(), kPromptTailBytes));
  if (calls && request.tool_use == ToolUse::kRequired) {
    ForcedPrefix first = forced_prefix_of(model, request, context.prompt);
    const auto begin = static_cast<std::ptrdiff_t>(prompt.tokens.size());
    const std::span<const ByteRange> foreign(&first.name, first.name.begin < first.name.end ? 1 : 0);
    CAIRN_TRY_VOID(
        append_text(*model.tokenizer, first.text, {.parse_special = true, .foreign = foreign}, prompt.tokens));
    context.forced_prefix = std::move(first.text);
    forced_opening = std::move(first.opening);
    forced_prefix.assign(prompt.tokens.begin() + begin, prompt.tokens.end());
  }
  context.template_stop_strings = chat_stops(model.prompt_context());
  return made;
}

}  // namespace

Prefill prefill_of(const LoadedModel& model, std::string_view text, const std::string& prompt) {
  // Answers do not begin with whitespace, whatever the template ends with.
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  std::string before = thinking_close(model, prompt);
  if (before.empty() && model.output_format.reasoning == ReasoningFormat::kHarmony)
    before = "<|channel|>final<|message|>";
  return {std::move(before), std::string(text.substr(begin))};
}

Result<int32_t> count_chat_tokens(Service& service, const RequestContext& request_context, ChatRequest request,
                                  const net::HttpRequest& http) {
  CAIRN_TRY(const SharedModel model, service.find_model(request_context, request.model));
  set_tenant(http, request.generate);
  CAIRN_TRY(const Prepared prepared, prepare(service, *model, request));
  return static_cast<int32_t>(prepared.prompt.tokens.size());
}

Result<Answer> prepare_chat(Service& service, const RequestContext& request_context, ChatRequest request,
                            const std::string& id, const MakeChatSerializer& make_serializer) {
  CAIRN_TRY(const SharedModel model, service.find_model(request_context, request.model));
  CAIRN_TRY(Prepared prepared, prepare(service, *model, request));
  const auto& [prompt, context, forced_prefix, forced_opening, budget] = prepared;
  request.generate.render_special = true;
  request.generate.text_at_start = context.prefill.empty() && context.forced_prefix.empty();
  for (const auto& stop : context.template_stop_strings) request.generate.stop.push_back(stop);

  Answer answer;
  answer.engine = shared_engine(model);
  ChatConstraintRules rules = rules_of(*model, request, budget);
  CAIRN_TRY_VOID(add_grammar(service, *model, request, context, rules));
  CAIRN_TRY_VOID(add_calls(service, *model, request, context, forced_opening, rules));
  answer.requests = constrained_requests(request, id, prompt, rules, context, *model);
  auto serializer =
      make_serializer({id, *model, request.choices, request.stream, static_cast<int32_t>(prompt.tokens.size())});
  answer.serializer = std::make_unique<ChatOutput>(std::move(serializer), context, request.choices,
                                                   turn_recorder(service, *model, request, forced_prefix),
                                                   [&service](auto work) { service.store_later(std::move(work)); });
  answer.share = ByteShare(service.bytes());
  answer.listing = service.listing(*model);
  if (!answer.share.grow_to(request.kept_bytes)) return std::unexpected(no_request_bytes());
  return answer;
}

Result<void> run_chat(Service& service, const RequestContext& request_context, ChatRequest request,
                      std::string_view id_prefix, const net::HttpRequest& http,
                      const std::shared_ptr<net::HttpResponse>& response, const MakeChatSerializer& make_serializer) {
  set_tenant(http, request.generate);
  if (principal_of(http).no_disk()) request.stored = false;
  CAIRN_TRY(Answer answer,
            prepare_chat(service, request_context, std::move(request), random_id(id_prefix), make_serializer));
  Generation::start(request_context, std::move(answer), response);
  return {};
}

}  // namespace cairn::api
