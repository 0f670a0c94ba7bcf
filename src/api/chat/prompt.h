/// A conversation -> the tokens that the model goes on from.
#pragma once

#include <string>
#include <vector>

#include "api/chat/sampled_turns.h"
#include "base/error.h"
#include "base/ids.h"
#include "prompt/chat_template.h"
#include "registry/registry.h"

namespace cairn::api {

struct ChatPrompt {
  std::vector<TokenId> tokens;
  std::string text;  ///< as rendered, but for turns that came back from `turns`
};

/// Turns that `turns` knows are put in as they were sampled: all of a turn whose thinking the template shows, else what
/// came after the thinking. Errors: the template's.
Result<ChatPrompt> chat_prompt(const LoadedModel& model, const ChatInput& input, SampledTurns* turns = nullptr,
                               const TurnScope& scope = {});

}  // namespace cairn::api
