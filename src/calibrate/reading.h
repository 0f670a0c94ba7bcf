/// Has a model read a text in windows without scoring it, for those who watch its products.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/error.h"
#include "base/ids.h"
#include "cache/page_pool.h"
#include "model/embedder.h"
#include "model/runner.h"
#include "perplexity/windows.h"

namespace cairn::calibrate {

struct ReadingOptions {
  perplexity::Windows windows;  ///< without stride
  int32_t count = 0;            ///< of windows, from the first on
  bool logits = false;          ///< whether the output matrix has a product for each token, too
  std::function<void(int32_t done)> progress{};
};

/// Sizes to load a runner with, and windows that it reads at a time.
perplexity::WindowBatch plan_reading(const perplexity::Windows& windows, bool logits, int64_t vocabulary);

/// Every token of each window has a row in every product. `at_once`: of plan_reading; the pool has pages for them.
/// Errors: those of the runner.
Result<void> read_windows(model::Runner& runner, cache::PagePool& pool, std::span<const TokenId> tokens,
                          int32_t at_once, const ReadingOptions& options);
/// The same of an encoder, which reads one window after the other.
Result<void> read_windows(model::Embedder& embedder, std::span<const TokenId> tokens, const ReadingOptions& options);

}  // namespace cairn::calibrate
