/// Renders a conversation as the tokens that the model continues.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "chat/chat_template.h"
#include "chat/prompt_context.h"
#include "chat/sampled_turns.h"

namespace cairn::chat {

/// How the assistant's turns of a conversation came into the prompt.
struct ReplayedTurns {
  int32_t memory = 0;    ///< as they were sampled
  int32_t store = 0;     ///< the same, found in the store
  int32_t rendered = 0;  ///< as the template writes what the client sent

  int32_t all() const { return memory + store + rendered; }
};

struct ChatPrompt {
  std::vector<TokenId> tokens;
  std::string text;  ///< as rendered, except for turns that were taken from `turns`
  ReplayedTurns replayed{};
};

/// Turns found in `turns` are inserted as they were sampled: the whole turn if the template shows its thinking, else
/// the part after the thinking. If what the template writes around a turn depends on the turn's text, the conversation
/// is rendered as it came. Errors: the template's.
Result<ChatPrompt> chat_prompt(const PromptContext& context, const ChatInput& input, SampledTurnCache* turns = nullptr,
                               const CacheScope& scope = {});

}  // namespace cairn::chat
