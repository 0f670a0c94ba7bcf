#include "engine/kv/checkpoints.h"

#include <algorithm>
#include <bit>

#include "kernels/kv.h"

namespace cairn::engine {
namespace {

// Positions of control tokens that end a message.
std::vector<int32_t> message_ends(std::span<const TokenId> prompt, const tokenizer::Tokenizer& tokenizer) {
  std::vector<int32_t> ends;
  int32_t text = 0;
  for (int32_t at = 0; at < static_cast<int32_t>(prompt.size()); ++at) {
    const TokenId token = prompt[static_cast<size_t>(at)];
    if (index(token) >= tokenizer.size() || !tokenizer.is_control(token)) {
      ++text;
      continue;
    }
    if (text >= kMessageTokensMin) ends.push_back(at);
    text = 0;
  }
  return ends;
}

}  // namespace

std::vector<int32_t> checkpoint_positions(std::span<const TokenId> prompt, const tokenizer::Tokenizer& tokenizer) {
  const auto tokens = static_cast<int32_t>(prompt.size());
  std::vector<int32_t> ends = message_ends(prompt, tokenizer);
  if (ends.empty()) ends.push_back(tokens - 1);
  std::vector<int32_t> wanted;
  const auto add = [&](int32_t position) {
    position = position / kernels::kPageTokens * kernels::kPageTokens;
    const auto near = [&](int32_t other) { return std::abs(other - position) < kCheckpointDistanceMin; };
    if (position >= kCheckpointDistanceMin && std::ranges::none_of(wanted, near)) wanted.push_back(position);
  };
  // The positions are added in order of their worth.
  add(ends.back());
  add(ends.front());
  if (ends.size() >= 2) add(ends[ends.size() - 2]);
  // A power of 2, so that prompts of other lengths have checkpoints at the same places.
  const auto spacing = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(
      std::max(kCheckpointSpacingMin, (tokens + kSpacedCheckpointsMax - 1) / kSpacedCheckpointsMax))));
  for (int32_t position = spacing; position < tokens; position += spacing) add(position);
  std::ranges::sort(wanted);
  return wanted;
}

}  // namespace cairn::engine
