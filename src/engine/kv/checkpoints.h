/// Where copies of a prompt's recurrent states are worth their memory (models with KvKind::kState).
///
/// A state cannot be cut back: a later prompt resumes at a position of which a copy was kept, or computes all tokens
/// from the last such position on. The end of an answer is always kept (PrefixCache::leave). Other prompts part from
/// this one where a message begins or ends: another conversation behind the system prompt, an edited last message
/// behind the one before it, an answer whose thinking was stripped behind the last message. Each of these has a
/// checkpoint at the page boundary before. Long prompts have some between, so that a prompt that parts anywhere
/// computes a bounded number of tokens again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace cairn::engine {

/// A control token ends a message if so many tokens before it are text.
inline constexpr int32_t kMessageTokensMin = 8;
/// No checkpoint is nearer to the beginning, or to another one: computing so few tokens is cheaper than a copy.
inline constexpr int32_t kCheckpointDistanceMin = 64;
/// Distance of the checkpoints between messages: at least this, and so that a prompt has at most kSpacedCheckpointsMax.
inline constexpr int32_t kCheckpointSpacingMin = 1024;
inline constexpr int32_t kSpacedCheckpointsMax = 8;

/// Positions in the prompt, ascending multiples of kPageTokens. They depend on the prompt alone; prompts with the same
/// beginning mostly have the same ones in it.
std::vector<int32_t> checkpoint_positions(std::span<const TokenId> prompt, const tokenizer::Tokenizer& tokenizer);

}  // namespace cairn::engine
