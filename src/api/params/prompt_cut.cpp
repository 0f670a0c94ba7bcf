#include "api/params/prompt_cut.h"

#include <algorithm>

#include "api/params/generation_params.h"
#include "api/params/request_context.h"

namespace cairn::api {
namespace {

constexpr std::string_view kField = "truncate_prompt_tokens";

size_t tokens_kept(const chat::PromptContext& model, const engine::GenerateRequest& generate) {
  const int32_t asked = *generate.prompt_tokens_max;
  if (asked != kAsManyAsFit) return static_cast<size_t>(asked);
  const int32_t answer = generate.max_tokens < 0 ? kAnswerRoomTokens : generate.max_tokens;
  return static_cast<size_t>(model.context_tokens - std::clamp(answer, 1, std::max(1, model.context_tokens / 2)));
}

}  // namespace

std::optional<int32_t> read_prompt_cut(RequestFields& fields) {
  const auto tokens = fields.optional_integer(kField, kAsManyAsFit, kTokensMax);
  if (tokens == 0) fields.reject(kField, "must be 1 or more, or -1 for as many tokens as fit, not 0");
  return tokens ? std::optional(static_cast<int32_t>(*tokens)) : std::nullopt;
}

std::optional<size_t> text_tokens_kept(bool truncate, std::optional<int32_t> asked, int32_t context_tokens) {
  if (!asked) return truncate ? std::optional(static_cast<size_t>(context_tokens)) : std::nullopt;
  if (*asked == kAsManyAsFit) return static_cast<size_t>(context_tokens);
  return static_cast<size_t>(truncate ? std::min(*asked, context_tokens) : *asked);
}

chat::PromptContext prompt_context_of(const loader::LoadedModel& model, const engine::GenerateRequest& generate) {
  chat::PromptContext context = model.prompt_context();
  context.cuts_prompts = generate.prompt_tokens_max.has_value();
  return context;
}

chat::ChatModel chat_model_of(const loader::LoadedModel& model, const engine::GenerateRequest& generate) {
  chat::ChatModel context = model.chat_model();
  context.cuts_prompts = generate.prompt_tokens_max.has_value();
  return context;
}

void cut_prompt(RequestContext& context, const chat::PromptContext& model, const engine::GenerateRequest& generate,
                bool keeps_beginning, std::vector<TokenId>& prompt) {
  if (!generate.prompt_tokens_max) return;
  const size_t all = prompt.size();
  const size_t most = tokens_kept(model, generate);
  if (all <= most) return;
  const TokenId bos = model.tokenizer.special().bos;
  const bool begins = keeps_beginning && most > 1 && bos != kNoToken && prompt.front() == bos;
  prompt.erase(prompt.begin(), prompt.end() - static_cast<std::ptrdiff_t>(most));
  if (begins) prompt.front() = bos;
  context.note_ignored(kField, fmt::format("{}: the prompt has {} tokens, of which {}the last {} are read", kField, all,
                                           begins ? "the first and " : "", begins ? most - 1 : most));
}

}  // namespace cairn::api
