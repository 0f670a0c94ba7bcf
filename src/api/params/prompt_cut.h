/// Prompts that are cut instead of refused: vLLM's `truncate_prompt_tokens`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/params/request_fields.h"
#include "chat/chat_model.h"
#include "engine/engine.h"
#include "loader/loaded_model.h"

namespace cairn::api {

/// What stands in `truncate_prompt_tokens` where as many tokens are kept as fit.
inline constexpr int32_t kAsManyAsFit = -1;
/// What those leave to an answer without a limit.
inline constexpr int32_t kAnswerRoomTokens = 256;

/// `truncate_prompt_tokens`: kAsManyAsFit, or how many tokens are kept, 1 or more. Unset: nothing is cut.
std::optional<int32_t> read_prompt_cut(RequestFields& fields);

/// The same of texts to embed or to rank, which may say `truncate`, too: to the context.
std::optional<size_t> text_tokens_kept(bool truncate, std::optional<int32_t> asked, int32_t context_tokens);

/// The model, for a request's prompts: where they are cut, their texts may be of any length.
chat::PromptContext prompt_context_of(const loader::LoadedModel& model, const engine::GenerateRequest& generate);
chat::ChatModel chat_model_of(const loader::LoadedModel& model, const engine::GenerateRequest& generate);

/// Keeps the prompt's last tokens, as many as `generate.prompt_tokens_max` says, and tells it. kAsManyAsFit leaves room
/// for the answer, but at most half of the context. `keeps_beginning`: the token with which the model's texts begin
/// stays in front of them, if there is room for two.
void cut_prompt(RequestContext& context, const chat::PromptContext& model, const engine::GenerateRequest& generate,
                bool keeps_beginning, std::vector<TokenId>& prompt);

}  // namespace cairn::api
