#include "calibrate/reading.h"

#include <algorithm>
#include <vector>

namespace cairn::calibrate {
namespace {

// Rows per step beyond which steps get no faster per row.
constexpr int32_t kStepRows = 512;
constexpr int64_t kLogitsBytes = 128ll << 20;

// The tokens [begin, begin + rows) of a window, behind those in `to`.
void append(const perplexity::Windows& windows, std::span<const TokenId> tokens, int32_t window, int32_t begin,
            int32_t rows, std::vector<TokenId>& to) {
  const size_t at = static_cast<size_t>(window) * static_cast<size_t>(windows.tokens) + static_cast<size_t>(begin);
  const auto from = tokens.subspan(at, static_cast<size_t>(rows));
  to.insert(to.end(), from.begin(), from.end());
  if (begin == 0 && windows.first != kNoToken) to[to.size() - from.size()] = windows.first;
}

// Reads windows [begin, end) side by side.
Result<void> read_group(model::Runner& runner, cache::PagePool& pool, std::span<const TokenId> tokens, int32_t begin,
                        int32_t end, const ReadingOptions& options, std::vector<cache::PageTable>& pages) {
  const perplexity::Windows& windows = options.windows;
  pages.resize(static_cast<size_t>(end - begin));
  for (cache::PageTable& table : pages) {
    if (!pool.extend(table, windows.tokens)) return fail(Code::kInternal, "the page pool is too small");
  }
  const int32_t most =
      options.logits ? std::min(runner.batch_tokens_max(), runner.logits_max()) : runner.batch_tokens_max();
  const int32_t rows_max = std::max(1, most / (end - begin));
  const auto wanted = options.logits ? model::LogitsWanted::kAll : model::LogitsWanted::kHiddenAll;
  std::vector<TokenId> batch;
  std::vector<model::BatchSlice> slices;
  for (int32_t position = 0; position < windows.tokens; position += rows_max) {
    const int32_t rows = std::min(rows_max, windows.tokens - position);
    batch.clear();
    slices.clear();
    for (int32_t i = 0; i < end - begin; ++i) {
      slices.push_back({.sequence = SequenceId{i},
                        .row_begin = static_cast<int32_t>(batch.size()),
                        .rows = rows,
                        .position_begin = position,
                        .pages = &pages[static_cast<size_t>(i)],
                        .logits = wanted});
      append(windows, tokens, begin + i, position, rows, batch);
    }
    CAIRN_TRY([[maybe_unused]] const model::LogitsView view, runner.step({batch, slices, &pool}));
  }
  return {};
}

}  // namespace

perplexity::WindowBatch plan_reading(const perplexity::Windows& windows, bool logits, int64_t vocabulary) {
  const int32_t at_once = std::max(1, kStepRows / windows.tokens);
  const int64_t affordable = std::max<int64_t>(1, kLogitsBytes / (vocabulary * static_cast<int64_t>(sizeof(float))));
  return {.batch_tokens_max = kStepRows,
          .logits_max = logits ? static_cast<int32_t>(std::min<int64_t>(kStepRows, affordable)) : 1,
          .windows = at_once};
}

Result<void> read_windows(model::Runner& runner, cache::PagePool& pool, std::span<const TokenId> tokens,
                          int32_t at_once, const ReadingOptions& options) {
  std::vector<cache::PageTable> pages;
  for (int32_t begin = 0; begin < options.count; begin += at_once) {
    const int32_t end = std::min(begin + at_once, options.count);
    const auto done = read_group(runner, pool, tokens, begin, end, options, pages);
    for (cache::PageTable& table : pages) pool.release(table);
    CAIRN_TRY_VOID(done);
    if (options.progress) options.progress(end);
  }
  return {};
}

Result<void> read_windows(model::Embedder& embedder, std::span<const TokenId> tokens, const ReadingOptions& options) {
  std::vector<TokenId> text;
  std::vector<float> out;
  for (int32_t window = 0; window < options.count; ++window) {
    text.clear();
    append(options.windows, tokens, window, 0, options.windows.tokens, text);
    out.resize(static_cast<size_t>(embedder.ability().dimensions));
    const model::EmbedText texts[] = {{.tokens = text}};
    CAIRN_TRY_VOID(embedder.embed(texts, model::Pooling::kMean, out));
    if (options.progress) options.progress(window + 1);
  }
  return {};
}

}  // namespace cairn::calibrate
