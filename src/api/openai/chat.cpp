#include "api/openai/chat.h"

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>

#include "api/errors.h"
#include "api/generation.h"
#include "api/openai/answer.h"
#include "api/openai/request.h"
#include "api/prompt_tokens.h"
#include "api/tenant.h"
#include "base/hash.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;

std::string random_id(std::string_view prefix) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{:016x}{:016x}", prefix, random(), random());
}

/// prompts x n requests; the i-th choice of a prompt draws from a seed of its own. The first has the answer's id, the
/// others ID-1, ID-2, ...
std::vector<GenerateRequest> spread(const CommonFields& common, std::string_view id,
                                    std::vector<std::vector<TokenId>> prompts) {
  std::vector<GenerateRequest> requests;
  requests.reserve(prompts.size() * common.choices);
  for (auto& prompt : prompts) {
    for (int i = 0; i < common.choices; ++i) {
      GenerateRequest request = common.generate;
      request.prompt = prompt;
      request.id = requests.empty() ? std::string(id) : fmt::format("{}-{}", id, requests.size());
      request.sampling.seed += static_cast<uint64_t>(i);
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

void answer(const LoadedModel& model, AnswerKind kind, const CommonFields& common,
            std::vector<std::vector<TokenId>> prompts, std::shared_ptr<net::HttpResponse> response) {
  AnswerOptions options;
  options.kind = kind;
  options.id = random_id(kind == AnswerKind::kChat ? "chatcmpl-" : "cmpl-");
  options.model = model.name;
  options.choices = static_cast<int>(prompts.size()) * common.choices;
  options.choices_per_prompt = common.choices;
  options.stream = common.stream;
  options.include_usage = common.include_usage;
  options.logprobs = common.generate.sampling.logprobs;
  auto requests = spread(common, options.id, std::move(prompts));
  auto writer = std::make_unique<OpenAiAnswer>(std::move(options), *model.tokenizer);
  Generation::start(*model.engine, std::move(requests), std::move(writer), std::move(response));
}

// Who has another key does not learn from the time an answer takes what others have asked.
void set_tenant(const net::HttpRequest& http, GenerateRequest& generate) {
  generate.tenant = tenant_of(http);
  if (!generate.tenant.empty()) generate.salt = hash64(generate.tenant, generate.salt) | 1;
}

Result<void> run_chat(const Registry& registry, const net::HttpRequest& http,
                      const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(ChatRequest request, parse_chat(body));
  CAIRN_TRY(LoadedModel * model, registry.find(request.common.model));
  CAIRN_TRY(auto prompt, chat_prompt_tokens(*model, request.input));
  set_tenant(http, request.common.generate);
  for (auto& stop : chat_stops(*model)) request.common.generate.stop.push_back(std::move(stop));
  answer(*model, AnswerKind::kChat, request.common, {std::move(prompt)}, response);
  return {};
}

Result<void> run_completion(const Registry& registry, const net::HttpRequest& http,
                            const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(CompletionRequest request, parse_completion(body));
  CAIRN_TRY(LoadedModel * model, registry.find(request.common.model));
  set_tenant(http, request.common.generate);
  std::vector<std::vector<TokenId>> prompts;
  for (auto& prompt : request.prompts) {
    if (auto* tokens = std::get_if<std::vector<TokenId>>(&prompt)) {
      prompts.push_back(std::move(*tokens));
    } else {
      CAIRN_TRY(auto encoded, completion_prompt_tokens(*model, std::get<std::string>(prompt)));
      prompts.push_back(std::move(encoded));
    }
  }
  answer(*model, AnswerKind::kCompletion, request.common, std::move(prompts), response);
  return {};
}

ordered_json describe(const LoadedModel& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created_unix_s},
          {"owned_by", "cairn"},
          {"context_length", model.engine->context_tokens()},
          {"architecture", model.architecture},
          {"quantization", model.quantisation},
          {"parameters", model.parameters},
          {"size_bytes", model.file_bytes}};
}

}  // namespace

void handle_chat(const Registry& registry, const net::HttpRequest& request,
                 std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = run_chat(registry, request, response); !done) send_error(*response, done.error());
}

void handle_completion(const Registry& registry, const net::HttpRequest& request,
                       std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = run_completion(registry, request, response); !done) send_error(*response, done.error());
}

void handle_models(const Registry& registry, std::string_view id, net::HttpResponse& response) {
  if (!id.empty()) {
    const auto model = registry.find(id);
    return model ? send_json(response, describe(**model)) : send_error(response, model.error());
  }
  ordered_json list = {{"object", "list"}, {"data", ordered_json::array()}};
  for (const LoadedModel* model : registry.list()) list["data"].push_back(describe(*model));
  send_json(response, list);
}

}  // namespace cairn::api::openai
