// Drafts of the model's MTP module, which starts from the hidden state that the model has left in a sequence's pages.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "engine/speculation/argmax_sampler.h"
#include "engine/speculation/drafter.h"

namespace cairn::engine {
namespace {

class MtpDrafter final : public Drafter {
 public:
  explicit MtpDrafter(model::Runner& runner)
      : runner_(runner),
        block_(runner.draft_block()),
        sequences_max_(static_cast<size_t>(std::min(runner.batch_tokens_max() / block_, runner.logits_max()))),
        greedy_(runner, static_cast<int32_t>(sequences_max_), runner.vocabulary()) {
    active_.reserve(sequences_max_);
    tokens_.reserve(sequences_max_);
    slices_.reserve(sequences_max_);
    probabilities_.reserve(sequences_max_);
  }

  // One batch per draft: the next one reads the results of this one.
  void propose(std::span<const DraftRequest> requests) override {
    active_.clear();
    for (const DraftRequest& request : requests) {
      if (request.tokens_max > 0 && active_.size() < sequences_max_) active_.push_back(&request);
    }
    probabilities_.assign(active_.size(), 1);
    while (!active_.empty()) {
      lay_out();
      const Result<std::span<const TokenId>> drafts = draft();
      if (!drafts.has_value()) {
        if (!std::exchange(has_failed_, true))
          log_warning("speculation failed; nothing is proposed when it does (said once): {}", drafts.error().text());
        return;
      }
      take(*drafts);
    }
  }
  int32_t rows_written(int32_t tokens) const override { return block_ > 1 ? block_ : tokens; }
  void forget(SequenceId /*sequence*/) override {}

 private:
  void lay_out() {
    tokens_.clear();
    slices_.clear();
    for (const DraftRequest* request : active_) {
      const std::vector<TokenId>& proposed = *request->proposed;
      model::BatchSlice& slice = slices_.emplace_back();
      slice.sequence = request->sequence;
      slice.row_begin = static_cast<int32_t>(tokens_.size());
      slice.rows = 1;
      slice.position_begin = static_cast<int32_t>(request->tokens.size() + proposed.size()) - 1;
      slice.pages = request->pages;
      slice.logits = model::LogitsWanted::kLast;
      slice.drafts_before = static_cast<int32_t>(proposed.size());
      slice.adapter_scales = request->adapter_scales;
      tokens_.push_back(proposed.empty() ? request->tokens.back() : proposed.back());
    }
  }

  Result<std::span<const TokenId>> draft() {
    CAIRN_TRY(const model::LogitsView logits,
              runner_.mtp_step({tokens_, slices_, active_.front()->pool, greedy_.keeps_logits()}));
    for (size_t i = 0; i < logits.confidence.size(); ++i) probabilities_[i] *= logits.confidence[i];
    const bool is_choosy =
        std::ranges::any_of(active_, [](const DraftRequest* request) { return request->token_probability_min > 0; });
    return greedy_.of(logits, active_.size(), is_choosy);
  }

  // Keeps in active_ the requests that need more drafts. What the first draft is worth shows only if it is proposed.
  void take(std::span<const TokenId> drafts) {
    size_t kept = 0;
    for (size_t i = 0; i < active_.size(); ++i) {
      std::vector<TokenId>& proposed = *active_[i]->proposed;
      const bool unlikely = !proposed.empty() && probabilities_[i] < active_[i]->probability_min;
      const float least = active_[i]->token_probability_min;
      const bool unsure = least > 0 && greedy_.probability(i) < least;
      if (drafts[i] == kNoToken || unlikely || unsure) continue;
      proposed.push_back(drafts[i]);
      const auto size = static_cast<int32_t>(proposed.size());
      if (size == active_[i]->tokens_max || (block_ > 1 && size == block_)) continue;
      probabilities_[kept] = probabilities_[i];
      active_[kept++] = active_[i];
    }
    active_.resize(kept);
  }

  model::Runner& runner_;
  const int32_t block_;         // rows that are drafted at once
  const size_t sequences_max_;  // maximum sequences of a batch
  ArgmaxSampler greedy_;
  bool has_failed_ = false;

  // State of the current call.
  std::vector<const DraftRequest*> active_;
  std::vector<double> probabilities_;  // that all drafts of a request so far are right
  std::vector<TokenId> tokens_;
  std::vector<model::BatchSlice> slices_;
};

}  // namespace

std::unique_ptr<Drafter> make_mtp_drafter(model::Runner& runner) { return std::make_unique<MtpDrafter>(runner); }

}  // namespace cairn::engine
