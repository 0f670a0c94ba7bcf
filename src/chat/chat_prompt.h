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

struct ChatPrompt {
  std::vector<TokenId> tokens;
  std::string text;  ///< as rendered, except for turns that were taken from `turns`
};

/// Turns found in `turns` are inserted as they were sampled: the whole turn if the template shows its thinking, else
/// the part after the thinking. If what the template writes around a turn depends on the turn's text, the conversation
/// is rendered as it came. Errors: the template's.
Result<ChatPrompt> chat_prompt(const PromptContext& context, const ChatInput& input, SampledTurnCache* turns = nullptr,
                               const CacheScope& scope = {});

}  // namespace cairn::chat
