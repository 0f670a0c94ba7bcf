/// Proposes tokens that may come next, for the model to check several in one step (speculative decoding).
///
/// Drafts never change an answer: the engine samples every token from the model's own logits, with the sample that
/// belongs to its place, and keeps a proposal only if it is that token. So greedy and sampled answers alike are the
/// bytes that they would be without speculation; a bad proposal costs time only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "cache/page_pool.h"
#include "model/runner.h"

namespace cairn::engine {

/// A sequence for which drafts are wanted.
struct DraftRequest {
  SequenceId sequence{};
  std::span<const TokenId> tokens;  ///< prompt and answer so far
  int32_t tokens_max = 0;
  std::vector<TokenId>* proposed = nullptr;  ///< empty, with room for tokens_max
  /// For drafters that write pages: the model has computed all tokens but the last, and the pages have room for
  /// rows_written(tokens_max) rows from the last on.
  const cache::PageTable* pages = nullptr;
  const cache::PagePool* pool = nullptr;
  std::span<const float> adapter_scales = {};  ///< BatchSlice's
  /// A token behind the first is worth proposing if all up to it are right with at least this probability. Drafters
  /// that do not know it propose what they have.
  double probability_min = 0;
  /// SpeculationOptions::probability_min. Drafters without probabilities of their own propose what they have.
  float token_probability_min = 0;
};

/// Thread: the engine's.
class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Appends up to tokens_max tokens to each request's `proposed`.
  virtual void propose(std::span<const DraftRequest> requests) = 0;
  /// Rows of the model's own pages, from the one of the last token on, that proposing up to `tokens` tokens writes to.
  virtual int32_t rows_written(int32_t /*tokens*/) const { return 0; }
  /// Drops all state of a sequence that has gone.
  virtual void forget(SequenceId sequence) = 0;
};

/// How many tokens back prompt lookup searches: some ten microseconds' worth.
inline constexpr int32_t kLookupTokensMax = 32'768;

/// Prompt lookup (Saxena 2023) proposes what followed the last occurrence of the sequence's last tokens in it. Runs of
/// ngram_max (at least 2) down to 2 tokens are tried; the latest occurrence wins. An occurrence that reaches the end is
/// continued as repetition. Allocates nothing.
std::unique_ptr<Drafter> make_prompt_lookup(int32_t ngram_max);

/// Drafts with the model's MTP module (Runner::has_mtp). `runner` outlives the drafter. A call that fails proposes
/// nothing more.
std::unique_ptr<Drafter> make_mtp_drafter(model::Runner& runner);

/// Steps of the first pause, without proposals, when they do not pay; each further pause is twice as long.
inline constexpr int32_t kDraftPauseMin = 8;
inline constexpr int32_t kDraftPauseMax = 512;

/// How many tokens to propose for one sequence, from how its proposals have fared: as many as shorten the time per
/// token, none for a while when none does.
class DraftLengthController {
 public:
  /// Called once per step. `row_cost`: time of one more row of a decode step, as a share of the step's time without it.
  int32_t tokens_wanted(double row_cost, int32_t tokens_max);
  /// The first `accepted` of `proposed` tokens were right. 0 proposed changes nothing.
  void observe(int32_t proposed, int32_t accepted);

 private:
  // Checked proposals and right ones among them, decayed with age. Optimistic at first, or none would ever be made.
  double checked_ = 2;
  double right_ = 1.4;
  int32_t observed_ = 0;            // observations since the last pause
  int32_t pause_ = kDraftPauseMin;  // steps of the next pause
  int32_t pause_left_ = 0;
};

}  // namespace cairn::engine
