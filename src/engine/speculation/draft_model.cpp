#include "engine/speculation/draft_model.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "cache/page_pool.h"
#include "engine/speculation/argmax_sampler.h"

namespace cairn::engine {
namespace {

// What the draft model has computed of one sequence.
struct Followed {
  std::vector<TokenId> tokens;  // tokens whose keys and values are in the pages, from position 0
  cache::PageTable pages;
  int64_t asked = 0;   // number of the last call that had a request for the sequence
  int64_t served = 0;  // number of the last call that computed rows of the sequence
};

class DraftModel final : public Drafter {
 public:
  DraftModel(model::Runner& runner, cache::PagePool&& pool, int32_t vocabulary)
      : runner_(runner),
        pool_(std::move(pool)),
        sequences_max_(static_cast<size_t>(std::min(runner.batch_tokens_max(), runner.logits_max()))),
        greedy_(runner, static_cast<int32_t>(sequences_max_), vocabulary) {
    tokens_.reserve(static_cast<size_t>(runner.batch_tokens_max()));
    slices_.reserve(sequences_max_);
    active_.reserve(sequences_max_);
  }

  void propose(std::span<const DraftRequest> requests) override {
    ++calls_;
    asked_.clear();
    for (const DraftRequest& request : requests) follow(request);
    choose();
    while (!active_.empty()) {
      lay_out();
      const Result<std::span<const TokenId>> drafts = draft();
      if (!drafts.has_value()) {
        give_up(drafts.error());
        return;
      }
      take(*drafts);
    }
  }

  void forget(SequenceId sequence) override {
    const auto found = followed_.find(sequence);
    if (found == followed_.end()) return;
    pool_.release(found->second.pages);
    followed_.erase(found);
  }

 private:
  struct Work {
    const DraftRequest* request = nullptr;
    Followed* followed = nullptr;
    int32_t rows = 0;  // rows in the next batch

    int32_t behind() const {
      return static_cast<int32_t>(request->tokens.size() + request->proposed->size() - followed->tokens.size());
    }
  };

  // Rolls back to the tokens of the request that the draft model has computed, and gets pages for all that may come.
  void follow(const DraftRequest& request) {
    const std::span<const TokenId> tokens = request.tokens;
    if (request.tokens_max <= 0 || tokens.empty()) return;
    const size_t end = tokens.size() + static_cast<size_t>(request.tokens_max);
    if (end > static_cast<size_t>(runner_.context_tokens())) return forget(request.sequence);
    Followed& followed = followed_[request.sequence];
    followed.asked = calls_;
    const auto common = std::ranges::mismatch(followed.tokens, tokens).in1 - followed.tokens.begin();
    // The last token is computed in any case, for the logits after it.
    followed.tokens.resize(std::min(static_cast<size_t>(common), tokens.size() - 1));
    const bool unknown = std::ranges::any_of(tokens.subspan(followed.tokens.size()),
                                             [this](TokenId id) { return index(id) >= runner_.vocabulary(); });
    if (unknown || !make_room(followed, static_cast<int32_t>(end))) return forget(request.sequence);
    asked_.push_back({&request, &followed});
  }

  // Drops the least recently requested sequences, if needed to get pages.
  bool make_room(Followed& followed, int32_t tokens) {
    while (!pool_.extend(followed.pages, tokens)) {
      auto oldest = followed_.end();
      for (auto it = followed_.begin(); it != followed_.end(); ++it) {
        if (it->second.asked == calls_) continue;
        if (oldest == followed_.end() || it->second.asked < oldest->second.asked) oldest = it;
      }
      if (oldest == followed_.end()) return false;
      forget(oldest->first);
    }
    return true;
  }

  // Fills active_, the first batch: first sequences that are nearly caught up, then others; of each kind the least
  // recently served first.
  void choose() {
    std::ranges::stable_sort(asked_, {}, [](const Work& work) { return work.followed->served; });
    active_.clear();
    int32_t rows_left = runner_.batch_tokens_max();
    for (const bool near : {true, false}) {
      if (!near) rows_left = std::min(rows_left, kDraftCatchUpRowsMax);
      for (const Work& work : asked_) {
        if ((work.behind() <= kDraftNearRows) != near) continue;
        const int32_t rows = std::min(work.behind(), rows_left);
        if (active_.size() == sequences_max_ || rows == 0) break;
        if (near && rows < work.behind()) continue;
        active_.push_back(work);
        active_.back().rows = rows;
        work.followed->served = calls_;
        rows_left -= rows;
      }
    }
  }

  void lay_out() {
    tokens_.clear();
    slices_.clear();
    for (const Work& work : active_) {
      model::BatchSlice& slice = slices_.emplace_back();
      slice.sequence = work.request->sequence;
      slice.row_begin = static_cast<int32_t>(tokens_.size());
      slice.rows = work.rows;
      slice.position_begin = static_cast<int32_t>(work.followed->tokens.size());
      slice.pages = &work.followed->pages;
      slice.logits = work.rows == work.behind() ? model::LogitsWanted::kLast : model::LogitsWanted::kNone;
      // A proposed token is fed back alone, right after it was made.
      const std::span<const TokenId> known = work.request->tokens;
      if (work.followed->tokens.size() < known.size()) {
        const auto rows = known.subspan(work.followed->tokens.size(), static_cast<size_t>(work.rows));
        tokens_.insert(tokens_.end(), rows.begin(), rows.end());
      } else {
        tokens_.push_back(work.request->proposed->back());
      }
    }
  }

  // The token that follows each slice that proposes.
  Result<std::span<const TokenId>> draft() {
    CAIRN_TRY(const model::LogitsView logits, runner_.step({tokens_, slices_, &pool_, greedy_.keeps_logits()}));
    const auto proposes = [](const model::BatchSlice& slice) { return slice.logits == model::LogitsWanted::kLast; };
    const bool is_choosy =
        std::ranges::any_of(active_, [](const Work& work) { return work.request->token_probability_min > 0; });
    return greedy_.of(logits, static_cast<size_t>(std::ranges::count_if(slices_, proposes)), is_choosy);
  }

  // Called after a batch: keeps in active_ the sequences that need more proposals.
  void take(std::span<const TokenId> drafts) {
    size_t next = 0, kept = 0;
    for (size_t i = 0; i < active_.size(); ++i) {
      Work work = active_[i];
      const bool proposes = slices_[i].logits == model::LogitsWanted::kLast;
      const auto computed =
          std::span(tokens_).subspan(static_cast<size_t>(slices_[i].row_begin), static_cast<size_t>(slices_[i].rows));
      work.followed->tokens.insert(work.followed->tokens.end(), computed.begin(), computed.end());
      if (!proposes) continue;
      const size_t row = next++;
      const TokenId token = drafts[row];
      const float least = work.request->token_probability_min;
      if (token == kNoToken || (least > 0 && greedy_.probability(row) < least)) continue;
      work.request->proposed->push_back(token);
      if (static_cast<int32_t>(work.request->proposed->size()) == work.request->tokens_max) continue;
      work.rows = 1;
      active_[kept++] = work;
    }
    active_.resize(kept);
  }

  void give_up(const Error& error) {
    if (!std::exchange(has_failed_, true)) {
      log_warning("the draft model failed; nothing is proposed when it does (said once): {}", error.text());
    }
    for (const Work& work : active_) forget(work.request->sequence);
    active_.clear();
  }

  model::Runner& runner_;
  cache::PagePool pool_;
  const size_t sequences_max_;  // maximum sequences of a batch
  ArgmaxSampler greedy_;
  std::unordered_map<SequenceId, Followed> followed_;
  int64_t calls_ = 0;
  bool has_failed_ = false;

  // State of the current call.
  std::vector<Work> asked_;
  std::vector<Work> active_;
  std::vector<TokenId> tokens_;
  std::vector<model::BatchSlice> slices_;
};

}  // namespace

Result<std::unique_ptr<Drafter>> make_draft_model(model::Runner& runner, kernels::DeviceMemory& device,
                                                  const DraftModelOptions& options) {
  const cache::KvLayout& layout = runner.kv_layout();
  if (std::ranges::any_of(layout.groups,
                          [](const cache::KvGroup& group) { return group.kind == cache::KvKind::kState; })) {
    return fail(Code::kUnsupported,
                "a model with recurrent layers cannot be a draft model: what it has seen of tokens that were not taken "
                "cannot be undone; choose one with attention only");
  }
  if (options.kv_pages.size() != layout.groups.size() ||
      std::ranges::any_of(options.kv_pages, [](int32_t pages) { return pages < 1; })) {
    return fail_at("kv_pages", Code::kInvalidArgument, "the draft model needs KV pages for each of its {} groups",
                   layout.groups.size());
  }
  CAIRN_TRY(cache::PagePool pool, cache::PagePool::create(device, layout, options.kv_pages));
  return std::make_unique<DraftModel>(runner, std::move(pool), options.vocabulary);
}

}  // namespace cairn::engine
