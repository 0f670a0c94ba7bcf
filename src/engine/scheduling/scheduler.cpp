#include "engine/scheduling/scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace cairn::engine {
namespace {

bool wants_prompt_rows(const ScheduleInput& demand) { return !demand.decode && !demand.deferred; }

// Sort key of the prompts of a class.
struct Place {
  Held had;
  int64_t deadline_ns = 0;
  size_t index = 0;
  auto operator<=>(const Place&) const = default;
};

}  // namespace

double step_beside_prompts_ns(const StepLimits& limits, const CostModel& cost, int32_t rows, int64_t attended) {
  const double decode_ns = cost.step_ns(rows, attended);
  const double least = decode_ns + limits.step_ns;
  if (limits.gap_ns <= 0) return least;
  // The fewest rows that take alone, in chunks of the usual size, at least the wanted share of the step with them. What
  // they attend to lengthens both alike, so that it is left out.
  const double row_ns = cost.row_ns();
  int32_t low = 0;
  int32_t high = limits.prefill_chunk_max;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    const bool enough = kPlannedShare * kPromptSlowdownMax * middle * row_ns >= cost.step_ns(rows + middle, attended);
    enough ? high = middle : low = middle + 1;
  }
  const double most = std::max(kPlannedShare * limits.gap_ns, kGapGrowthMax * decode_ns);
  return std::max(least, std::min(most, cost.step_ns(rows + low, attended)));
}

Scheduler::Scheduler(StepLimits limits) : limits_(limits) {
  const auto demands = static_cast<size_t>(std::min(limits.batch_tokens_max, limits.logits_max));
  seen_.reserve(demands);
  for (Prompts& prompts : prompts_) prompts.had.reserve(demands);
}

void Scheduler::note_prompts(std::span<const ScheduleInput> demands) {
  seen_.assign(demands.size(), false);
  for (int priority = 0; priority < kPriorities; ++priority) {
    Holdings& had = prompts_[priority].had;
    had.begin();
    for (const ScheduleInput& demand : demands) {
      if (wants_prompt_rows(demand) && static_cast<int>(demand.priority) == priority) had.want(demand.party);
    }
    had.settle();
  }
}

// The next prompt of the class, among those that have not had their turn in this step.
std::optional<size_t> Scheduler::next_prompt(std::span<const ScheduleInput> demands, int priority) const {
  const Prompts& prompts = prompts_[priority];
  const bool by_deadline = prompts.turns % kDeadlineTurns == kDeadlineTurns - 1;
  std::optional<Place> next;
  for (size_t i = 0; i < demands.size(); ++i) {
    const ScheduleInput& demand = demands[i];
    if (!wants_prompt_rows(demand) || static_cast<int>(demand.priority) != priority || seen_[i]) continue;
    const Place place{by_deadline ? Held{} : prompts.had.of(demand.party), demand.deadline_ns, i};
    if (!next || place < *next) next = place;
  }
  return next ? std::optional(next->index) : std::nullopt;
}

void Scheduler::plan(std::span<const ScheduleInput> demands, const CostModel& cost,
                     std::vector<ScheduledTokens>& plan) {
  plan.clear();
  Step step{.rows_left = limits_.batch_tokens_max, .logits_left = limits_.logits_max};
  add_decodes(demands, step, plan);
  int32_t prompt_logits = 0;
  for (const ScheduleInput& demand : demands) {
    if (wants_prompt_rows(demand)) prompt_logits += demand.scores ? std::min(demand.rows, kScoredRowsMin) : 1;
  }
  add_drafts(demands, prompt_logits, step, plan);
  add_prompts(demands, cost, step, plan);
}

void Scheduler::add_decodes(std::span<const ScheduleInput> demands, Step& step,
                            std::vector<ScheduledTokens>& plan) const {
  for (size_t i = 0; i < demands.size() && step.rows_left > 0 && step.logits_left > 0; ++i) {
    if (!demands[i].decode || demands[i].deferred) continue;
    plan.push_back({static_cast<int32_t>(i), 1, true});
    ++step.rows;
    --step.rows_left;
    --step.logits_left;
    step.attended += demands[i].position;
  }
}

// Grants one more draft to each decoding sequence in turn, while rows are left.
void Scheduler::add_drafts(std::span<const ScheduleInput> demands, int32_t prompt_logits, Step& step,
                           std::vector<ScheduledTokens>& plan) {
  int32_t left = std::min(step.rows_left - (prompt_logits > 0 ? kPromptRowsMin : 0), step.logits_left - prompt_logits);
  for (bool granted = true; granted;) {
    granted = false;
    for (ScheduledTokens& share : plan) {
      const ScheduleInput& demand = demands[static_cast<size_t>(share.demand)];
      if (left <= 0 || share.rows > demand.drafts) continue;
      step.attended += demand.position + share.rows;
      ++share.rows;
      ++step.rows;
      --step.rows_left;
      --step.logits_left;
      --left;
      granted = true;
    }
  }
}

Scheduler::Budget Scheduler::budget_of(std::span<const ScheduleInput> demands, const CostModel& cost, const Step& step,
                                       std::span<const ScheduledTokens> decodes) const {
  if (decodes.empty()) return {kIdleStepFactor * limits_.step_ns, kIdleStepFactor * limits_.step_ns};
  Budget budget{.step_ns = step_beside_prompts_ns(limits_, cost, step.rows, step.attended)};
  const double late_ns = cost.step_ns(step.rows, step.attended) + kLateStepFactor * limits_.step_ns;
  budget.late_step_ns = std::max(budget.step_ns, late_ns);
  for (const ScheduledTokens& share : decodes) {
    const int64_t tbt_ns = demands[static_cast<size_t>(share.demand)].tbt_ns;
    if (tbt_ns <= 0) continue;
    budget.step_ns = std::min(budget.step_ns, static_cast<double>(tbt_ns));
    budget.late_step_ns = std::min(budget.late_step_ns, static_cast<double>(tbt_ns));
  }
  return budget;
}

void Scheduler::add_prompts(std::span<const ScheduleInput> demands, const CostModel& cost, Step& step,
                            std::vector<ScheduledTokens>& plan) {
  time_was_up_ = false;
  note_prompts(demands);
  std::array<std::optional<size_t>, kPriorities> next;
  Stride::Classes wanting{};
  for (int priority = 0; priority < kPriorities; ++priority) {
    next[priority] = next_prompt(demands, priority);
    wanting[priority] = next[priority].has_value();
  }
  rows_.set_wanting(wanting);

  const Budget budget = budget_of(demands, cost, step, plan);
  const int32_t growth = plan.empty() ? kIdleRowGrowth : kRowGrowth;
  bool in_time_full = false;  // whether prompts that are in time get no more rows
  int32_t chunk_left = std::min(limits_.prefill_chunk_max, step.rows_left);
  while (chunk_left > 0 && std::ranges::find(wanting, true) != wanting.end()) {
    const int priority = rows_.next(wanting);
    const size_t at = *next[priority];
    const ScheduleInput& demand = demands[at];
    const int32_t rows_max = std::min({demand.rows, demand.step_rows_max, chunk_left,
                                       demand.scores ? step.logits_left : std::numeric_limits<int32_t>::max()});
    const int32_t wanted = demand.at_risk || !in_time_full ? rows_max : 0;
    int32_t rows = cost.rows_within(demand.at_risk ? budget.late_step_ns : budget.step_ns, step.rows, step.attended,
                                    demand.position, wanted, growth);
    rows = std::max(rows, std::min(kPromptRowsMin - step.prompt_rows, wanted));
    const bool time_is_up = rows < wanted;
    time_was_up_ = time_was_up_ || time_is_up;
    const bool logits = rows == demand.rows && step.logits_left > 0;
    // Without a row of logits left, the prompt's last row waits for another step.
    if (rows == demand.rows && !logits) --rows;
    if (rows > 0) {
      plan.push_back({static_cast<int32_t>(at), rows, logits});
      rows_.charge(priority, rows);
      prompts_[priority].had.add(demand.party, rows);
      ++prompts_[priority].turns;
      step.rows += rows;
      step.rows_left -= rows;
      step.logits_left -= demand.scores ? rows : logits ? 1 : 0;
      step.prompt_rows += rows;
      step.attended += attended_by(demand.position, rows);
      chunk_left -= rows;
    }
    if (time_is_up && demand.at_risk) break;
    in_time_full = in_time_full || time_is_up;
    seen_[at] = true;
    next[priority] = next_prompt(demands, priority);
    wanting[priority] = next[priority].has_value();
  }
}

}  // namespace cairn::engine
