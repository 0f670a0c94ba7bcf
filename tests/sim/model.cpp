#include "sim/model.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "sampling/random.h"
#include "sampling/sampler.h"
#include "tokenizer/detokenizer.h"

namespace cairn::sim {
namespace {

constexpr uint64_t kNoHistory = 0x5EED;

uint64_t chain(uint64_t before, TokenId token) {
  return sampling::mix_bits(before * 31 + static_cast<uint64_t>(index(token)) + 1);
}

/// Mostly the answer continues a short cycle, so that prompt lookup is often right; sometimes it jumps, or ends.
void write_logits(uint64_t hash, TokenId last, std::span<float> logits) {
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(sampling::mix_bits(hash + i * 0x9E37) >> 40) * 0x1p-22f;  // 0 .. 4
  }
  if (hash % 8 != 0) logits[static_cast<size_t>(5 + (index(last) * 3 + 1) % 11)] += 8;
  if (hash / 8 % 64 == 0) logits[2] += 16;
}

/// Cuts the text at the stop string, if it contains it.
bool cut_at_stop(engine::Answer& answer, const engine::GenerateRequest& request) {
  if (request.stop.empty()) return false;
  const size_t at = answer.text.find(request.stop[0]);
  if (at == std::string::npos) return false;
  answer.text.resize(at);
  answer.finish.reason = engine::FinishReason::kStop;
  answer.finish.stop = request.stop[0];
  return true;
}

}  // namespace

double StepCost::quiet_ns(int32_t rows, int64_t attended) const {
  return flat_ns + row_ns * std::max(rows - flat_rows, 0) + attended_ns * static_cast<double>(attended);
}

engine::Answer plain_answer(const tokenizer::Tokenizer& tokenizer, const engine::GenerateRequest& request,
                            int32_t tokens_max) {
  engine::Answer answer;
  sampling::Sampler sampler(request.sampling, kVocabulary, request.prompt);
  tokenizer::Detokenizer detokenizer(tokenizer, request.text_at_start, request.render_special);
  std::vector<float> logits(kVocabulary);
  uint64_t hash = kNoHistory;
  for (const TokenId token : request.prompt) hash = chain(hash, token);
  TokenId last = request.prompt.back();
  answer.finish.reason = engine::FinishReason::kLength;
  while (request.prompt.size() + answer.tokens.size() < static_cast<size_t>(tokens_max)) {
    write_logits(hash, last, logits);
    last = sampler.sample(logits).token;
    ++answer.finish.usage.completion_tokens;
    if (!request.ignore_eos && tokenizer.ends_generation(last)) {
      answer.finish.reason = engine::FinishReason::kStop;
      break;
    }
    hash = chain(hash, last);
    answer.tokens.push_back(last);
    answer.text += detokenizer.push(last);
    if (cut_at_stop(answer, request)) return answer;
  }
  answer.text += detokenizer.flush();
  cut_at_stop(answer, request);
  return answer;
}

Model::Model(const ModelOptions& options, VirtualClock& clock) : options_(options), clock_(clock) {
  logits_.resize(static_cast<size_t>(kVocabulary) * static_cast<size_t>(options.logits_max));
}

Result<model::LogitsView> Model::step(const model::Batch& batch) {
  const auto half = std::chrono::nanoseconds(static_cast<int64_t>(step_ns(batch) / 2));
  clock_.advance(half);
  if (hook_) hook_(batch);
  int32_t rows = 0;
  size_t logit_rows = 0;
  rows_.resize(batch.tokens.size());
  for (const model::BatchSlice& slice : batch.slices) {
    if (slice.row_begin != rows || slice.rows < 1) wrong(slice, "slices do not follow each other");
    rows += slice.rows;
    uint64_t hash = read_history(batch, slice);
    for (int32_t i = 0; i < slice.rows && problem_.empty(); ++i) {
      const TokenId token = batch.tokens[static_cast<size_t>(slice.row_begin + i)];
      const int32_t position = slice.position_begin + i;
      hash = chain(hash, token);
      const Cell& cell = rows_[static_cast<size_t>(slice.row_begin + i)] = {hash, index(token), position};
      write(batch, slice, position, cell);
      const bool last = i == slice.rows - 1;
      if (slice.logits == model::LogitsWanted::kNone || (slice.logits == model::LogitsWanted::kLast && !last)) continue;
      if (logit_rows == static_cast<size_t>(options_.logits_max)) {
        wrong(slice, "more rows of logits than there may be");
        break;
      }
      write_logits(hash, token, std::span(logits_).subspan(kVocabulary * logit_rows++, kVocabulary));
    }
  }
  if (static_cast<size_t>(rows) != batch.tokens.size() || rows > options_.batch_tokens_max) {
    wrong(batch.slices.front(), "{} rows in slices, {} tokens, {} may be", rows, batch.tokens.size(),
          options_.batch_tokens_max);
  }
  clock_.advance(half);
  switch (std::exchange(failure_, Failure::kNone)) {
    case Failure::kNone:
      break;
    case Failure::kError:
      return fail(Code::kUnavailable, "the simulation said so");
    case Failure::kNoMemory:
      throw std::bad_alloc();
  }
  return model::LogitsView{std::span<const float>(logits_).first(logit_rows * kVocabulary), kVocabulary};
}

double Model::step_ns(const model::Batch& batch) {
  const StepCost& cost = options_.cost;
  int64_t attended = 0;
  for (const model::BatchSlice& slice : batch.slices) {
    attended += int64_t{slice.rows} * slice.position_begin + int64_t{slice.rows} * (slice.rows - 1) / 2;
  }
  ++steps_;
  if (slow_left_ > 0) --slow_left_;
  if (cost.slow_one_in > 0 && slow_left_ == 0 && sampling::uniform(options_.seed, 2 * steps_) * cost.slow_one_in < 1) {
    slow_left_ = cost.slow_steps;
  }
  const double noise = 1 + cost.noise * (2 * sampling::uniform(options_.seed, 2 * steps_ + 1) - 1);
  return cost.quiet_ns(static_cast<int32_t>(batch.tokens.size()), attended) * noise *
         (slow_left_ > 0 ? cost.slow_factor : 1);
}

// Reads the hash of all tokens before the slice's first row, which every group must hold.
uint64_t Model::read_history(const model::Batch& batch, const model::BatchSlice& slice) {
  if (slice.position_begin < 0 || slice.position_begin + slice.rows > options_.context_tokens) {
    wrong(slice, "outside of the context");
  }
  if (slice.position_begin == 0 || !problem_.empty()) return kNoHistory;
  const uint64_t hash = read_group(batch, slice, 0);
  for (int32_t group = 1; group < batch.pool->groups(); ++group) {
    if (read_group(batch, slice, group) != hash) wrong(slice, "group {} has another history than group 0", group);
  }
  return hash;
}

uint64_t Model::read_group(const model::Batch& batch, const model::BatchSlice& slice, int32_t group) {
  const cache::KvGroup& kv_group = options_.layout.groups[static_cast<size_t>(group)];
  const int32_t end = slice.position_begin;
  int32_t begin = 0;
  if (kv_group.kind == cache::KvKind::kState) begin = end - 1;
  if (kv_group.kind == cache::KvKind::kWindow) begin = cache::window_begin(kv_group.window, end);
  Cell cell;
  uint64_t before = kNoHistory;
  for (int32_t position = begin; position < end; ++position) {
    const std::byte* from = place(batch, slice, group, position);
    if (from == nullptr) return 0;
    std::memcpy(&cell, from, sizeof cell);
    const bool follows = position == begin && begin > 0 ? true : cell.hash == chain(before, TokenId{cell.token});
    if (cell.position != position || !follows) {
      wrong(slice, "group {} has something else at position {}", group, position);
      return 0;
    }
    before = cell.hash;
  }
  return before;
}

void Model::write(const model::Batch& batch, const model::BatchSlice& slice, int32_t position, const Cell& cell) {
  for (int32_t group = 0; group < batch.pool->groups(); ++group) {
    std::byte* to = place(batch, slice, group, position);
    if (to == nullptr) return;
    const bool state = is_state(group);
    // A state is that before the drafts until it is known which of them are right.
    if (state && position >= slice.position_begin + slice.rows - slice.drafts) continue;
    const PageId page = slice.pages->groups[static_cast<size_t>(group)][state ? 0 : position / kernels::kPageTokens];
    if (batch.pool->references(group, page) != 1) {
      wrong(slice, "group {}: the page of position {} is written to though others see it", group, position);
    }
    std::memcpy(to, &cell, sizeof cell);
  }
}

Result<void> Model::keep_drafts(const cache::PagePool& pool, const model::BatchSlice& slice, int32_t count) {
  if (count < 1 || count > slice.drafts) wrong(slice, "{} of {} drafts are kept", count, slice.drafts);
  const Cell& cell = rows_[static_cast<size_t>(slice.row_begin + slice.rows - slice.drafts + count - 1)];
  for (int32_t group = 0; group < pool.groups(); ++group) {
    if (!is_state(group)) continue;
    std::memcpy(pool.slot(group, slice.pages->groups[static_cast<size_t>(group)].at(0)), &cell, sizeof cell);
  }
  return {};
}

bool Model::is_state(int32_t group) const {
  return options_.layout.groups[static_cast<size_t>(group)].kind == cache::KvKind::kState;
}

// Address of a position's cell; null, with a problem recorded, if the table has no page there.
std::byte* Model::place(const model::Batch& batch, const model::BatchSlice& slice, int32_t group, int32_t position) {
  const bool state = is_state(group);
  const std::vector<PageId>& pages = slice.pages->groups.at(static_cast<size_t>(group));
  const size_t at = state ? 0 : static_cast<size_t>(position / kernels::kPageTokens);
  if (at >= pages.size() || pages[at] == kNoPage || batch.pool->references(group, pages[at]) < 1) {
    wrong(slice, "group {} has no page for position {}", group, position);
    return nullptr;
  }
  if (state) return batch.pool->slot(group, pages[at]);
  const kernels::KvView view = batch.pool->view(group, 0);
  return view.base + view.page_stride * index(pages[at]) + view.layer_offset +
         position % kernels::kPageTokens * static_cast<int64_t>(sizeof(Cell));
}

}  // namespace cairn::sim
