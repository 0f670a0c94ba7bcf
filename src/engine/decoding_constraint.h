/// Constrained decoding: what the next tokens of an answer must or must not be, where that is not the model's choice
/// alone: thinking that must end, text that must not appear, text that has one right form, an answer that is over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/event.h"

namespace cairn::engine {

struct NextTokenRule {
  /// Tokens that come next, in order, whatever the logits are. Each goes through the model like any other.
  std::vector<TokenId> forced;
  /// Tokens that may not come next; ignored while tokens are forced.
  std::vector<TokenId> banned;
  /// A bit for each token, the lowest bit of the first word for token 0: only those with a set bit may come next.
  /// Empty: all may. The constraint owns the words. Ignored while tokens are forced.
  std::span<const uint64_t> allowed{};
  /// Tokens that are likely to come next, in order: drafts, which change no answer. The constraint owns them. Ignored
  /// while tokens are forced.
  std::span<const TokenId> expected{};
  /// The next token is the one that temperature 0 would give.
  bool greedy = false;
  /// The answer ends here.
  std::optional<FinishReason> end;
  /// The answer fails here.
  std::optional<Error> error{};
  /// The rest says nothing yet: DecodingConstraint::finish() must be called.
  bool unfinished = false;
};

/// The constraint of one request. It sees the answer only, so its decisions depend on nothing else. Ids are tokens of
/// the model's vocabulary. begin() and token() are called on the engine's thread and must be quick; they leave what may
/// take long to finish().
class DecodingConstraint {
 public:
  virtual ~DecodingConstraint() = default;
  /// Called before the first token.
  virtual void begin(NextTokenRule& next) = 0;
  /// Called after each token of the answer, forced ones too, with the text that became certain with it. `next.forced`
  /// is empty unless tokens are still to come; the rest of `next` is as the last call left it.
  virtual void token(TokenId token, std::string_view text, NextTokenRule& next) = 0;
  /// Called once, and before any other call, where the last one has set `next.unfinished`: does what is left of it, and
  /// takes the flag back. On any thread, of which one at a time calls a constraint.
  virtual void finish(NextTokenRule& next) { next.unfinished = false; }
};

}  // namespace cairn::engine
