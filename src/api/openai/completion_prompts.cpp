#include "api/openai/completion_prompts.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/params/choices.h"
#include "api/params/prompt_cut.h"
#include "base/system/random_id.h"
#include "base/text/utf8.h"
#include "chat/completion_prompt.h"
#include "chat/infill_prompt.h"

namespace cairn::api::openai {
namespace {

Result<std::vector<TokenId>> prompt_tokens(RequestContext& context, const loader::LoadedModel& model,
                                           const CompletionPrompt& prompt, const CompletionRequest& request,
                                           const std::string& path) {
  const engine::GenerateRequest& generate = request.common.generate;
  const auto* text = std::get_if<std::string>(&prompt);
  if (!request.suffix.empty()) {
    if (text == nullptr)
      return fail_at("suffix", Code::kUnsupported, "suffix is not supported with token ids; send the prompt as text");
    return chat::infill_prompt_tokens(
        model.prompt_context(),
        {.prefix = *text, .suffix = request.suffix, .prefix_field = path, .suffix_field = "suffix"},
        generate.max_tokens);
  }
  const chat::PromptContext prompts = prompt_context_of(model, generate);
  std::vector<TokenId> tokens;
  if (text == nullptr) {
    tokens = std::get<std::vector<TokenId>>(prompt);
  } else {
    CAIRN_TRY(tokens, chat::completion_prompt_tokens(prompts, *text, path));
  }
  cut_prompt(context, prompts, generate, /*keeps_beginning=*/text != nullptr, tokens);
  return tokens;
}

/// Each choice scores its prompt anew. `prompt_tokens`: of all prompts.
Result<void> check_scores(const CommonFields& common, int64_t prompt_tokens) {
  const std::optional<int32_t> top = common.generate.prompt_logprobs;
  const int64_t scores = prompt_tokens * common.choices * (1 + top.value_or(0));
  if (!top || scores <= engine::kPromptScoresMax) return {};
  const std::string_view field = common.extras.prompt_logprobs ? "prompt_logprobs" : "logprobs";
  return fail_at(
      std::string(field), Code::kInvalidArgument,
      "{}: {} tokens of prompts, each with the {} most likely ones and for {} choices, have {} "
      "log-probabilities; one request may ask for {}: send fewer prompts at a time, or ask for fewer of each",
      field, prompt_tokens, *top, common.choices, scores, engine::kPromptScoresMax);
}

// The prompt's text as it was given, unless it may have been cut.
std::string echo_of(const loader::LoadedModel& model, const CompletionPrompt& prompt, bool may_be_cut,
                    std::span<const TokenId> tokens) {
  if (const auto* text = std::get_if<std::string>(&prompt); text != nullptr && !may_be_cut) return *text;
  return utf8_replace_invalid(model.tokenizer->decode(tokens, true));
}

}  // namespace

Result<PreparedCompletion> prepare_prompts(RequestContext& context, const loader::LoadedModel& model,
                                           const CompletionRequest& request) {
  const engine::GenerateRequest& generate = request.common.generate;
  CompletionOptions options;
  std::vector<std::vector<TokenId>> prompts;
  options.extras = request.common.extras;
  for (const auto& prompt : request.prompts) {
    const std::string path = prompt_path("prompt", prompts.size(), request.prompts.size());
    CAIRN_TRY(auto tokens, prompt_tokens(context, model, prompt, request, path));
    if (request.echo) options.echoed.push_back(echo_of(model, prompt, generate.prompt_tokens_max.has_value(), tokens));
    options.prompt_tokens += static_cast<int32_t>(tokens.size());
    if (options.extras.return_token_ids) options.prompts.push_back(tokens);
    prompts.push_back(std::move(tokens));
  }
  CAIRN_TRY_VOID(check_scores(request.common, options.prompt_tokens));
  options.id = random_id("cmpl-");
  options.model = model.name;
  options.choices = static_cast<int>(prompts.size()) * request.common.choices;
  options.choices_per_prompt = request.common.choices;
  options.stream = request.common.stream;
  options.logprobs = generate.sampling.logprobs;
  options.top_logprobs = generate.sampling.top_logprobs;
  auto requests = choice_requests(generate, options.id, std::move(prompts), request.common.choices);
  return PreparedCompletion{std::move(requests), std::move(options)};
}

}  // namespace cairn::api::openai
