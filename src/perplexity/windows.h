/// Runs a text through a model in windows and scores every position that counts.
///
/// A window has no context before it, so the scores of its first positions say more about the missing context than
/// about the model: only its last ones count. Several windows run as sequences of one step; scores depend neither on
/// how many nor on threads.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/system/thread_pool.h"
#include "cache/page_pool.h"
#include "model/runner.h"
#include "perplexity/logits_file.h"
#include "perplexity/row_scores.h"

namespace cairn::perplexity {

/// How a text is cut into windows.
struct Windows {
  int32_t tokens = 512;  ///< tokens of a window, kWindowTokensMin .. kWindowTokensMax
  /// 0: windows follow each other and their second halves count, as in llama-perplexity. Otherwise they begin this many
  /// tokens after each other, and the last `stride` positions count; less than `tokens`.
  int32_t stride = 0;
  TokenId first = kNoToken;  ///< replaces every window's first token; kNoToken: no replacement

  int32_t counted() const { return stride > 0 ? stride : tokens - 1 - tokens / 2; }
  int32_t counted_begin() const { return tokens - 1 - counted(); }
  int32_t step() const { return stride > 0 ? stride : tokens; }
  /// Number of whole windows in a text.
  int32_t of(int64_t text_tokens) const;
};

/// Sizes to load a runner with, so that steps are full and logits take a bounded amount of memory.
struct WindowBatch {
  int32_t batch_tokens_max = 0;  ///< ModelOptions::batch_tokens_max
  int32_t logits_max = 0;        ///< ModelOptions::logits_max
  int32_t windows = 0;           ///< windows that run at the same time
};
WindowBatch plan_batch(const Windows& windows, int64_t vocabulary);
/// Pages of every KV group for that many windows at the same time, for PagePool::create.
std::vector<int32_t> window_pages(const cache::KvLayout& layout, const Windows& windows, int32_t at_once);

struct WindowProgress {
  int32_t windows_done = 0;
  int32_t windows = 0;
  double perplexity = 0;  ///< of the windows scored so far
};

struct ScoreOptions {
  Windows windows;
  int32_t windows_max = std::numeric_limits<int32_t>::max();
  int32_t at_once = 1;                  ///< windows in a step; the pool has pages for them
  const LogitsFile* against = nullptr;  ///< records of these windows to compare with, from the first on; null: none
  LogitsFileWriter* save = nullptr;     ///< gets the records of all windows; null: none is written
  std::function<void(const WindowProgress&)> progress{};
};

/// Scores of every window's counted positions, one window after the other. `tokens` has at least one window. Errors:
/// those of the runner and of the files; kCorruptFile (a logit is NaN or infinite).
Result<std::vector<PositionScore>> score_windows(model::Runner& runner, cache::PagePool& pool, ThreadPool& threads,
                                                 std::span<const TokenId> tokens, const ScoreOptions& options);

}  // namespace cairn::perplexity
