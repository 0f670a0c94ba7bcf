/// A conversation -> the tokens that the model goes on from.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "chat/chat_template.h"
#include "chat/prompt_context.h"
#include "chat/sampled_turns.h"

namespace cairn {

struct ChatPrompt {
  std::vector<TokenId> tokens;
  std::string text;  ///< as rendered, but for turns that came back from `turns`
};

/// Turns that `turns` knows are put in as they were sampled: all of a turn whose thinking the template shows, else what
/// came after the thinking. Errors: the template's.
Result<ChatPrompt> chat_prompt(const PromptContext& context, const ChatInput& input, SampledTurnCache* turns = nullptr,
                               const CacheScope& scope = {});

}  // namespace cairn
