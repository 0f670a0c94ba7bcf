#include "engine/stages/drafting.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace cairn::engine {
namespace {

/// Weight of a step's measurement in the estimated cost of a proposed token.
constexpr double kDraftCostGain = 0.2;
/// Share of that cost that is forgotten in a step without proposals: a drafter that was slow once, because it read
/// prompts or the machine was busy, is measured again some time.
constexpr double kDraftCostForgotten = 1.0 / 256;

}  // namespace

Drafting::Drafting(std::unique_ptr<Drafter> drafter, const EngineOptions& options, const model::Runner& runner,
                   int32_t sequences_max, KvManager& kv, const Clock& clock)
    : kv_(kv),
      clock_(clock),
      drafter_(std::move(drafter)),
      drafts_max_(drafter_ == nullptr ? 0 : options.speculation.tokens_max),
      token_probability_min_(options.speculation.probability_min),
      vocabulary_(static_cast<int32_t>(runner.vocabulary())),
      context_tokens_(runner.context_tokens()) {
  requests_.reserve(static_cast<size_t>(sequences_max));
}

int64_t Drafting::propose(const Sequences& running, const CostModel& cost) try {
  for (const std::unique_ptr<Sequence>& sequence : running) sequence->drafts().forget();
  requests_.clear();
  collect_requests(running, cost);
  if (requests_.empty()) return 0;
  const int64_t begin_ns = clock_.now().count();
  drafter_->propose(requests_);
  const int64_t drafting_ns = clock_.now().count() - begin_ns;
  learn_cost(drafting_ns);
  for (const DraftRequest& request : requests_) {
    // A draft model may have a larger vocabulary.
    const auto unknown = std::ranges::find_if(*request.proposed, [&](TokenId id) { return index(id) >= vocabulary_; });
    request.proposed->erase(unknown, request.proposed->end());
  }
  return drafting_ns;
} catch (const std::exception&) {
  for (const std::unique_ptr<Sequence>& sequence : running) sequence->drafts().forget();
  return 0;
}

// Chooses the streams that are likely to go on faster with drafts than without: see DraftLengthController.
void Drafting::collect_requests(const Sequences& running, const CostModel& cost) {
  int32_t decoding = 0;
  int64_t attended = 0;
  for (const std::unique_ptr<Sequence>& sequence : running) {
    if (!sequence->decoding()) continue;
    ++decoding;
    attended += sequence->memory().computed;
  }
  const double without = cost.step_ns(decoding, attended);
  if (decoding == 0 || without <= 0) return;
  for (const std::unique_ptr<Sequence>& sequence : running) {
    if (!sequence->decoding() || sequence->channel().unread() || sequence->sampling().awaits_rule()) continue;
    const double with = cost.step_ns(decoding + 1, attended + sequence->memory().computed);
    SequenceDrafts& drafts = sequence->drafts();
    const std::span<const TokenId> expected =
        drafts.allowed() ? sequence->sampling().expected() : std::span<const TokenId>();
    if (!expected.empty()) {
      // A row's cost is given as a share of the stream's part of the step, so that others lose nothing: where rows are
      // what takes time, only drafts that are nearly certain pay.
      drafts.expect(expected, (with - without) / without * decoding, sequence->drafts_room());
      continue;
    }
    if (drafts_max_ == 0 || !drafts.speculates()) continue;
    const double row_cost = (with - without + token_ns_) / without;
    int32_t wanted = std::min(drafts.tokens_wanted(row_cost, drafts_max_), sequence->drafts_room());
    wanted = reserve(*sequence, wanted);
    if (wanted <= 0) continue;
    requests_.push_back({.sequence = sequence->id(),
                         .tokens = sequence->tokens(),
                         .tokens_max = wanted,
                         .proposed = &drafts.proposed(),
                         .pages = &sequence->memory().table,
                         .pool = &kv_.pool(),
                         .adapter_scales = sequence->adapter_scales(),
                         .probability_min = row_cost,
                         .token_probability_min = token_probability_min_});
  }
  if (requests_.empty()) token_ns_ *= 1 - kDraftCostForgotten;
}

int32_t Drafting::reserve(Sequence& sequence, int32_t wanted) {
  if (wanted <= 0) return 0;
  const int32_t rows = drafter_->rows_written(wanted);
  if (rows == 0) return wanted;
  const auto last = static_cast<int32_t>(sequence.tokens().size()) - 1;
  if (rows > context_tokens_ - last) return 0;
  const int32_t reserved = kv_.reserve_drafts(sequence, std::max(wanted, rows - 1));
  return reserved < rows - 1 ? 0 : std::min(wanted, reserved);
}

void Drafting::learn_cost(int64_t drafting_ns) {
  size_t proposed = 0;
  for (const DraftRequest& request : requests_) proposed += request.proposed->size();
  if (proposed == 0) return;
  token_ns_ += kDraftCostGain * (static_cast<double>(drafting_ns) / static_cast<double>(proposed) - token_ns_);
}

void Drafting::forget(SequenceId sequence) {
  if (drafter_ != nullptr) drafter_->forget(sequence);
}

}  // namespace cairn::engine
