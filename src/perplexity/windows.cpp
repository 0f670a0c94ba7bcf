#include "perplexity/windows.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace cairn::perplexity {
namespace {

// Rows per step beyond which steps get no faster per row.
constexpr int32_t kStepRows = 512;
// Maximum bytes of one step's logits, of which there are two copies (the runner's and its backend's).
constexpr int64_t kLogitsBytes = 128ll << 20;

// The size of the first part when `rows` is divided into as few, about equal parts as `part_max` allows.
int32_t even_part(int32_t rows, int32_t part_max) {
  const int32_t parts = (rows + part_max - 1) / part_max;
  return (rows + parts - 1) / parts;
}

class Scorer {
 public:
  Scorer(model::Runner& runner, cache::PagePool& pool, ThreadPool& threads, std::span<const TokenId> tokens,
         const ScoreOptions& options)
      : runner_(runner), pool_(pool), threads_(threads), tokens_(tokens), options_(options), windows_(options.windows) {
    total_ = std::min(windows_.of(std::ssize(tokens)), options.windows_max);
    block_max_.resize(static_cast<size_t>(threads.threads()));
    scores_.resize(static_cast<size_t>(total_) * static_cast<size_t>(windows_.counted()));
  }

  Result<std::vector<PositionScore>> run() {
    for (int32_t begin = 0; begin < total_; begin += options_.at_once) {
      const int32_t end = std::min(begin + options_.at_once, total_);
      auto done = run_group(begin, end);
      for (cache::PageTable& pages : pages_) pool_.release(pages);
      CAIRN_TRY_VOID(std::move(done));
      report(end);
    }
    return std::move(scores_);
  }

 private:
  // Runs windows [begin, end) side by side.
  Result<void> run_group(int32_t begin, int32_t end) {
    pages_.resize(static_cast<size_t>(end - begin));
    for (cache::PageTable& pages : pages_) {
      if (!pool_.extend(pages, windows_.tokens - 1)) return fail(Code::kInternal, "the page pool is too small");
    }
    const int32_t counted_begin = windows_.counted_begin();
    const int32_t at_once = end - begin;
    const int32_t batch_tokens_max = runner_.batch_tokens_max() / at_once;
    for (int32_t position = 0; position < counted_begin;) {
      const int32_t rows = even_part(counted_begin - position, batch_tokens_max);
      CAIRN_TRY_VOID(step(begin, position, rows, model::LogitsWanted::kNone));
      position += rows;
    }
    const int32_t logits_max = std::min(runner_.batch_tokens_max(), runner_.logits_max()) / at_once;
    for (int32_t position = counted_begin; position < windows_.tokens - 1;) {
      const int32_t rows = even_part(windows_.tokens - 1 - position, logits_max);
      CAIRN_TRY(const model::LogitsView logits, step(begin, position, rows, model::LogitsWanted::kAll));
      CAIRN_TRY_VOID(score(logits, begin, position, rows));
      position += rows;
    }
    return {};
  }

  // Runs the next `rows` rows of every window of the group that begins with window `begin`.
  Result<model::LogitsView> step(int32_t begin, int32_t position, int32_t rows, model::LogitsWanted wanted) {
    batch_tokens_.clear();
    slices_.clear();
    for (size_t i = 0; i < pages_.size(); ++i) {
      const int64_t at = (begin + static_cast<int64_t>(i)) * windows_.step() + position;
      const auto from = tokens_.subspan(static_cast<size_t>(at), static_cast<size_t>(rows));
      slices_.push_back({SequenceId{static_cast<int64_t>(i)}, static_cast<int32_t>(batch_tokens_.size()), rows,
                         position, &pages_[i], wanted});
      batch_tokens_.insert(batch_tokens_.end(), from.begin(), from.end());
      if (position == 0 && windows_.first != kNoToken)
        batch_tokens_[batch_tokens_.size() - from.size()] = windows_.first;
    }
    return runner_.step({batch_tokens_, slices_, &pool_});
  }

  // Scores logits of `rows` rows from `position` on, of every window of the group.
  Result<void> score(const model::LogitsView& logits, int32_t begin, int32_t position, int32_t rows) {
    CAIRN_CHECK(logits.rows() == static_cast<int64_t>(pages_.size()) * rows);
    const int32_t counted = windows_.counted();
    const auto place_of = [&](int64_t row) {  // index among all scores
      return (begin + row / rows) * counted + (position - windows_.counted_begin()) + row % rows;
    };
    bases_.clear();
    for (int64_t row = 0; options_.against != nullptr && row < logits.rows(); ++row) {
      CAIRN_TRY(bases_.emplace_back(), options_.against->record(place_of(row)));
    }
    const int64_t record_bytes = LogitsShape{.vocabulary = static_cast<int32_t>(logits.vocabulary)}.record_bytes();
    if (options_.save != nullptr) records_.resize(static_cast<size_t>(logits.rows() * record_bytes));
    threads_.parallel_for(logits.rows(), 1, [&](int64_t from, int64_t until, int member) {
      for (int64_t row = from; row < until; ++row) {
        const auto values = logits.row(row);
        const LogSum sum = log_sum(values);
        const int64_t window = begin + row / rows;
        const TokenId next = tokens_[static_cast<size_t>(window * windows_.step() + position + row % rows + 1)];
        PositionScore& score = scores_[static_cast<size_t>(place_of(row))];
        score.nll = negative_log_probability(values, sum, next);
        if (!bases_.empty())
          compare_row(values, sum, bases_[static_cast<size_t>(row)], next, block_max_[member], score);
        if (options_.save != nullptr) {
          encode_record(
              values, sum.largest, static_cast<float>(sum.log_sum),
              std::span(records_).subspan(static_cast<size_t>(row * record_bytes), static_cast<size_t>(record_bytes)));
        }
      }
    });
    for (int64_t row = 0; row < logits.rows(); ++row) {
      const double nll = scores_[static_cast<size_t>(place_of(row))].nll;
      if (!std::isfinite(nll)) {
        return fail_at(fmt::format("window {}, position {}", begin + row / rows, position + row % rows),
                       Code::kCorruptFile, "the model's logits are no numbers, or exclude the token that follows");
      }
      nll_sum_ += nll;
    }
    if (options_.save != nullptr) CAIRN_TRY_VOID(options_.save->append(records_));
    if (!bases_.empty()) options_.against->release(place_of(0), place_of(logits.rows() - 1) + 1);
    return {};
  }

  void report(int32_t done) const {
    if (!options_.progress) return;
    options_.progress({done, total_, std::exp(nll_sum_ / (static_cast<double>(done) * windows_.counted()))});
  }

  model::Runner& runner_;
  cache::PagePool& pool_;
  ThreadPool& threads_;
  std::span<const TokenId> tokens_;
  const ScoreOptions& options_;
  const Windows& windows_;
  int32_t total_ = 0;
  double nll_sum_ = 0;
  std::vector<PositionScore> scores_;
  // Page tables of the group that runs.
  std::vector<cache::PageTable> pages_;
  std::vector<TokenId> batch_tokens_;
  std::vector<model::BatchSlice> slices_;
  std::vector<LogitsRecord> bases_;
  std::vector<std::byte> records_;
  std::vector<std::vector<float>> block_max_;  // per member of the pool
};

}  // namespace

int32_t Windows::of(int64_t text_tokens) const {
  if (text_tokens < tokens) return 0;
  const int64_t windows = 1 + (text_tokens - tokens) / step();
  return static_cast<int32_t>(std::min<int64_t>(windows, std::numeric_limits<int32_t>::max()));
}

WindowBatch plan_batch(const Windows& windows, int64_t vocabulary) {
  const int64_t affordable = std::max<int64_t>(1, kLogitsBytes / (vocabulary * static_cast<int64_t>(sizeof(float))));
  const auto logit_rows = static_cast<int32_t>(std::min<int64_t>(kStepRows, affordable));
  // Counted rows of several windows are contiguous in a file of log-probabilities only if one step computes all of a
  // window's.
  const int32_t at_once =
      std::max(1, std::min(kStepRows / std::max(1, windows.counted_begin()), logit_rows / windows.counted()));
  return {kStepRows, std::min(logit_rows, windows.counted() * at_once), at_once};
}

std::vector<int32_t> window_pages(const cache::KvLayout& layout, const Windows& windows, int32_t at_once) {
  std::vector<int32_t> pages;
  for (const cache::KvGroup& group : layout.groups) {
    pages.push_back(at_once * (group.kind == cache::KvKind::kState ? 1 : cache::pages_for(windows.tokens)));
  }
  return pages;
}

Result<std::vector<PositionScore>> score_windows(model::Runner& runner, cache::PagePool& pool, ThreadPool& threads,
                                                 std::span<const TokenId> tokens, const ScoreOptions& options) {
  return Scorer(runner, pool, threads, tokens, options).run();
}

}  // namespace cairn::perplexity
