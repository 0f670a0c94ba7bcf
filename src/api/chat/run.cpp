#include "api/chat/run.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/access/principal.h"
#include "api/http/tenant.h"
#include "api/params/choices.h"
#include "api/params/prompt_cut.h"
#include "base/system/random_id.h"
#include "chat/answer/form.h"
#include "chat/answer/plan.h"
#include "chat/answer/stop_regex.h"

namespace cairn::api {
namespace {

/// Whether the turn's text alone gives its tokens again, so that a store need not keep them.
bool writes_itself(const tokenizer::Tokenizer& tokenizer, const chat::SampledTurn& sampled) {
  if (sampled.thinking_end > sampled.tokens.size()) return false;
  const auto own = tokenizer.encode(sampled.turn.content, {});
  return own.has_value() && std::ranges::equal(*own, std::span(sampled.tokens).subspan(sampled.thinking_end));
}

TurnRecorder turn_recorder(Service& service, const loader::LoadedModel& model, const ChatRequest& request) {
  return [&turns = service.turns(), &tokenizer = *model.tokenizer, stored = request.stored && service.stores_on_disk(),
          scope = chat::turn_scope(model.chat_model(), request.generate)](const chat::AnswerReader& reader,
                                                                          const chat::ChatTurn& turn) {
    chat::SampledTurn sampled = reader.sampled_turn(turn, tokenizer);
    const bool worth_storing = stored && (!sampled.turn.calls.empty() || !writes_itself(tokenizer, sampled));
    return turns.keep(scope, std::move(sampled), worth_storing);
  };
}

/// One request for every choice, each with a constraint of its own.
std::vector<engine::GenerateRequest> constrained_requests(ChatRequest& request, const std::string& id,
                                                          const chat::ChatModel& model, const chat::AnswerPlan& plan) {
  std::vector<std::vector<TokenId>> prompts;
  prompts.push_back(std::move(request.generate.prompt));
  auto requests = choice_requests(request.generate, id, std::move(prompts), request.choices);
  for (engine::GenerateRequest& generate : requests) generate.constraint = chat::make_constraint(model, plan);
  // One of them scores the prompt, which they share.
  for (engine::GenerateRequest& generate : std::span(requests).subspan(1)) generate.prompt_logprobs.reset();
  return requests;
}

/// Tells the request's trace what the model reads, if it wants to know.
void tell_prompt(const std::shared_ptr<RequestRecord>& record, const tokenizer::Tokenizer& tokenizer,
                 std::span<const TokenId> prompt) {
  if (record != nullptr && record->wants_texts()) record->prompt(tokenizer.decode(prompt, /*render_special=*/true));
}

/// What the requests ban is made here, once for all of them.
void make_text_bans(const chat::ChatModel& model, std::vector<engine::GenerateRequest>& requests) {
  if (requests.empty() || requests.front().banned_texts.empty()) return;
  const auto ban = model.constraints.text_ban(requests.front().banned_texts);
  for (engine::GenerateRequest& request : requests) request.text_ban = ban;
}

/// And what ends their texts: each has its own. Errors: an expression cannot be read.
Result<void> make_text_ends(std::vector<engine::GenerateRequest>& requests) {
  if (requests.empty() || requests.front().stop_regexes.empty()) return {};
  CAIRN_TRY(const auto regexes, chat::StopRegexes::read(requests.front().stop_regexes));
  for (engine::GenerateRequest& request : requests) request.text_end = regexes->make_end();
  return {};
}

/// Whatever part of the conversation is too long, its clients sent it in one field.
template <class T>
Result<T> with_prompt_field(Result<T> result, const std::string& field) {
  if (!result && result.error().overflow) result.error().at = field;
  return result;
}

Answer answer_of(Service& service, const loader::SharedModel& model, std::vector<engine::GenerateRequest> requests,
                 std::unique_ptr<ResponseSerializer> serializer) {
  return {.engine = loader::shared_engine(model),
          .requests = std::move(requests),
          .serializer = std::move(serializer),
          .share = ByteShare(service.bytes()),
          .listing = service.listing(*model)};
}

}  // namespace

Result<Answer> prepare_chat(Service& service, RequestContext& context, ChatRequest request, const std::string& id,
                            const MakeChatSerializer& make_serializer) {
  CAIRN_TRY(const loader::SharedModel model, service.find_model(context, request.model));
  const chat::ChatModel chat_model = chat_model_of(*model, request.generate);
  if (!request.lenient_calls) request.lenient_calls = service.lenient_calls();
  CAIRN_TRY(const chat::AnswerPlan plan,
            with_prompt_field(
                chat::plan_answer(chat_model, request, {.turns = &service.turns(), .grammars = &service.grammars()}),
                request.prompt_field));
  cut_prompt(context, chat_model, request.generate, /*keeps_beginning=*/true, request.generate.prompt);
  if (context.record() != nullptr) context.record()->replayed(plan.prompt.replayed);
  tell_prompt(context.record(), *model->tokenizer, request.generate.prompt);
  auto requests = constrained_requests(request, id, chat_model, plan);
  make_text_bans(chat_model, requests);
  CAIRN_TRY_VOID(make_text_ends(requests));
  auto serializer = make_serializer({id, *model, request.choices, request.stream, requests.front().prompt});
  chat::OutputContext context_of_output = plan.prompt.output;
  if (request.generate.max_tokens == 0) context_of_output.forced_prefix.clear();  // nor is a call begun
  auto output = std::make_unique<ChatOutput>(std::move(serializer), context_of_output, request.choices,
                                             turn_recorder(service, *model, request),
                                             [&service](auto work) { service.store_later(std::move(work)); });
  Answer answer = answer_of(service, model, std::move(requests), std::move(output));
  answer.prompt_field = request.prompt_field;
  if (!answer.share.grow_to(request.kept_bytes)) return std::unexpected(no_request_bytes());
  return answer;
}

Result<Answer> prepare_completion(Service& service, const loader::SharedModel& model,
                                  std::vector<engine::GenerateRequest> requests, const chat::AnswerForm& form,
                                  std::unique_ptr<ResponseSerializer> serializer) {
  CAIRN_TRY_VOID(chat::hold_to_form(model->chat_model(), form, &service.grammars(), requests));
  make_text_bans(model->chat_model(), requests);
  CAIRN_TRY_VOID(make_text_ends(requests));
  return answer_of(service, model, std::move(requests), std::move(serializer));
}

Result<void> run_chat(Exchange& exchange, ChatRequest request, std::string_view id_prefix,
                      const MakeChatSerializer& make_serializer) {
  set_tenant(exchange.request, request.generate);
  if (principal_of(exchange.request).no_disk()) request.stored = false;
  CAIRN_TRY(Answer answer, prepare_chat(exchange.service, exchange.context, std::move(request), random_id(id_prefix),
                                        make_serializer));
  Generation::start(exchange, std::move(answer));
  return {};
}

Result<void> run_completion(Exchange& exchange, const loader::SharedModel& model,
                            std::vector<engine::GenerateRequest> requests, const chat::AnswerForm& form,
                            std::unique_ptr<ResponseSerializer> serializer, std::string prompt_field) {
  if (!requests.empty()) tell_prompt(exchange.context.record(), *model->tokenizer, requests.front().prompt);
  CAIRN_TRY(Answer answer,
            prepare_completion(exchange.service, model, std::move(requests), form, std::move(serializer)));
  answer.prompt_field = std::move(prompt_field);
  Generation::start(exchange, std::move(answer));
  return {};
}

Result<int32_t> count_chat_tokens(Exchange& exchange, ChatRequest request) {
  Service& service = exchange.service;
  CAIRN_TRY(const loader::SharedModel model, service.find_model(exchange.context, request.model));
  set_tenant(exchange.request, request.generate);
  const chat::ChatModel chat_model = chat_model_of(*model, request.generate);
  CAIRN_TRY(chat::AnswerPrompt prompt,
            with_prompt_field(chat::answer_prompt(chat_model, request, &service.turns()), request.prompt_field));
  cut_prompt(exchange.context, chat_model, request.generate, /*keeps_beginning=*/true, prompt.tokens);
  return static_cast<int32_t>(prompt.tokens.size());
}

}  // namespace cairn::api
