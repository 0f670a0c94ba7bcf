/// What a model goes on from to answer in a conversation, and how what it writes is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chat/answer/beginning.h"
#include "chat/answer/reader.h"
#include "chat/answer/request.h"
#include "chat/chat_model.h"
#include "chat/chat_prompt.h"
#include "chat/sampled_turns.h"

namespace cairn::chat {

struct AnswerPrompt {
  std::vector<TokenId> tokens;  ///< with what the answer begins with
  ReplayedTurns replayed{};     ///< how the turns of the assistant came into it
  OutputContext output{};
  ForcedOpening forced_opening{};     ///< see ForcedPrefix::opening
  int32_t reasoning_tokens_max = -1;  ///< the thinking is closed at so many; -1: never
};

/// Where the turns of answers to such requests are remembered. A template that has changed may want calls written in
/// another way than they were sampled.
CacheScope turn_scope(const ChatModel& model, const engine::GenerateRequest& generate);

/// `request.input` gets the template's variables and the model's messages that it does not have. `turns` may be null.
/// Errors: the template's.
Result<AnswerPrompt> answer_prompt(const ChatModel& model, AnswerRequest& request, SampledTurnCache* turns);

/// The prompt as text alone, without tools that are required and sampled turns.
Result<std::string> answer_prompt_text(const ChatModel& model, AnswerRequest& request);

}  // namespace cairn::chat
