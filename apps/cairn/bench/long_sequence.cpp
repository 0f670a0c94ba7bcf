#include "bench/long_sequence.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace cairn::bench {

int64_t LongSequence::kv_bytes() const {
  int64_t bytes = 0;
  for (size_t group = 0; group < table_.groups.size(); ++group) {
    const auto pages = std::ranges::count_if(table_.groups[group], [](PageId page) { return page != kNoPage; });
    bytes += pages * pool_.layout().page_bytes(pool_.layout().groups[group]);
  }
  return bytes;
}

Result<void> LongSequence::extend(int32_t rows) {
  if (pool_.extend(table_, position_ + rows)) return {};
  return fail(Code::kOutOfMemory, "the memory planned has no pages for position {}", position_ + rows);
}

Result<void> LongSequence::step(std::vector<TokenId> tokens) {
  const auto rows = static_cast<int32_t>(tokens.size());
  CAIRN_TRY_VOID(extend(rows));
  tokens_ = std::move(tokens);
  const model::BatchSlice slice{SequenceId{}, 0, rows, position_, &table_, model::LogitsWanted::kLast};
  CAIRN_TRY(const model::LogitsView logits, runner_.step({tokens_, std::span(&slice, 1), &pool_}));
  const std::span<const float> row = logits.row(0);
  next_ = TokenId{static_cast<int32_t>(std::ranges::max_element(row) - row.begin())};
  position_ += rows;
  return {};
}

Result<void> LongSequence::compute(int32_t rows) {
  std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(runner_.vocabulary()) - 1);
  std::vector<TokenId> tokens(static_cast<size_t>(rows));
  for (TokenId& token : tokens) token = TokenId{any(random_)};
  CAIRN_TRY_VOID(step(std::move(tokens)));
  pool_.release_behind(table_, position_);
  return {};
}

Result<int32_t> LongSequence::compute_to(int32_t position) {
  const int32_t tokens = position - position_;
  while (position_ < position) CAIRN_TRY_VOID(compute(std::min(runner_.batch_tokens_max(), position - position_)));
  return tokens;
}

Result<void> LongSequence::copy_page(int32_t period) {
  const auto page = static_cast<size_t>(position_ / kernels::kPageTokens);
  CAIRN_TRY_VOID(extend(kernels::kPageTokens));
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    const std::vector<PageId>& pages = table_.groups[static_cast<size_t>(group)];
    const auto begin = pages.begin() + static_cast<ptrdiff_t>(page) - period;
    const auto from = std::find_if(begin, pages.end(), [](PageId id) { return id != kNoPage; });
    pool_.copy(group, *from, pages[page]);
  }
  position_ += kernels::kPageTokens;
  pool_.release_behind(table_, position_);
  return {};
}

// A state is changed by every row; keys and values of later positions are simply written again.
std::vector<LongSequence::SavedState> LongSequence::save_states() const {
  std::vector<SavedState> states;
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    const cache::KvGroup& kind = pool_.layout().groups[static_cast<size_t>(group)];
    if (kind.kind != cache::KvKind::kState) continue;
    SavedState state{group, std::vector<std::byte>(static_cast<size_t>(pool_.layout().page_bytes(kind)))};
    pool_.read(group, table_.groups[static_cast<size_t>(group)].front(), state.bytes.data());
    states.push_back(std::move(state));
  }
  return states;
}

void LongSequence::restore_states(const std::vector<SavedState>& states) {
  for (const SavedState& state : states)
    pool_.write(state.group, state.bytes.data(), table_.groups[static_cast<size_t>(state.group)].front());
}

Result<std::vector<double>> LongSequence::decode(int32_t tokens, std::vector<TokenId>& answer) {
  using std::chrono::steady_clock;
  const std::vector<SavedState> states = save_states();
  const int32_t position = position_;
  const TokenId next = next_;
  std::vector<double> seconds;
  answer.clear();
  for (int32_t i = 0; i < tokens; ++i) {
    answer.push_back(next_);
    const auto begin = steady_clock::now();
    CAIRN_TRY_VOID(step({next_}));  // no page is released: windows go back, too
    seconds.push_back(std::chrono::duration<double>(steady_clock::now() - begin).count());
  }
  position_ = position;
  next_ = next;
  pool_.release_beyond(table_, position_);
  restore_states(states);
  return seconds;
}

}  // namespace cairn::bench
