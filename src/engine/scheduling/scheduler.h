/// Decides how many rows of a step each sequence gets. It has neither clock nor model: its plan is a function of its
/// arguments.
///
/// Decode rows first: every running stream gets its token. Prompts then fill the step up to a time, predicted by the
/// cost model: between priorities by their weights (stride.h), within a priority to the client that has had the fewest
/// rows, of its prompts to the earliest deadline; every kDeadlineTurns-th share goes to the earliest deadline of all.
/// So nothing starves: each class and each client has its share, and a deadline that stands still comes first in the
/// end, however many clients come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "engine/party.h"
#include "engine/scheduling/cost_model.h"
#include "engine/scheduling/fair_shares.h"
#include "engine/scheduling/stride.h"

namespace cairn::engine {

/// What one running sequence could use of a step.
struct ScheduleInput {
  int32_t rows = 0;  ///< at least 1: tokens that the model has not seen
  /// Maximum rows of a prompt in one step, at least 1, so that the step ends at a checkpoint of recurrent states.
  int32_t step_rows_max = std::numeric_limits<int32_t>::max();
  bool decode = false;   ///< one row whose token was sampled; otherwise the rest of the prompt
  int32_t drafts = 0;    ///< for decode: rows of proposed tokens that may follow it, each with logits
  int32_t position = 0;  ///< position of the first row
  bool scores = false;   ///< a prompt of whose rows all have logits
  Priority priority = Priority::kInteractive;
  Party party{};
  int64_t deadline_ns = 0;  ///< when its first token is due
  int64_t tbt_ns = 0;       ///< wanted time between tokens; 0: none
  bool at_risk = false;     ///< a short prompt (kLateRowsMax) that would miss its deadline with ordinary shares
  bool deferred = false;    ///< gets nothing in this step
};

struct StepLimits {
  int32_t batch_tokens_max = 0;   ///< maximum rows of a step
  int32_t logits_max = 0;         ///< maximum rows of a step that have logits
  int32_t prefill_chunk_max = 0;  ///< maximum prompt rows of a step
  double step_ns = 0;             ///< time that prompts may always add to a step in which streams decode
  /// Time between two tokens of a stream up to which prompts add more than that, so that they take at most
  /// kPromptSlowdownMax times as long as alone; 0: they never add more.
  double gap_ns = 0;
};

struct ScheduledTokens {
  int32_t demand = 0;   ///< index of the input
  int32_t rows = 0;     ///< at least 1; for decode 1 + drafts that were granted
  bool logits = false;  ///< decode: of all rows; prompt: whether its last row is the prompt's last
};

/// Factor on the time of a step in which no sequence decodes: only newly arriving requests wait for its end.
inline constexpr int32_t kIdleStepFactor = 64;
/// Factor by which the rows of such a step may grow (see kRowGrowth): the first prompt after loading runs in steps of
/// the usual size once one of few rows has shown how fast the machine is.
inline constexpr int32_t kIdleRowGrowth = 32;
/// Largest factor by which a prompt may take longer beside streams than alone, while their steps stay under gap_ns.
inline constexpr double kPromptSlowdownMax = 1.6;
/// Share of gap_ns and of that factor that a step is planned for, as predictions are off by some ten percent.
inline constexpr double kPlannedShare = 0.9;
/// Where streams alone take so long that gap_ns leaves little for prompts, a step may take this many times as long.
inline constexpr double kGapGrowthMax = 2;
/// Factor on step_ns when short prompts would be late, as there are then more clients than the machine can serve in
/// time: first tokens would otherwise wait for ever smaller batches. It is never applied to long prompts.
inline constexpr double kLateStepFactor = 8;
inline constexpr int32_t kLateRowsMax = 512;
/// Prompt rows that always fit into a step, so that prompts make progress beside slow decode steps.
inline constexpr int32_t kPromptRowsMin = 2;
/// Rows of logits that drafts leave for a prompt whose rows all have some.
inline constexpr int32_t kScoredRowsMin = 16;
/// One in this many of the shares that the prompts of a class get goes to the earliest deadline alone.
inline constexpr int64_t kDeadlineTurns = 4;

/// Nanoseconds that a step may take in which `rows` rows of streams, which attend to `attended` positions, decode and
/// prompts wait.
double step_beside_prompts_ns(const StepLimits& limits, const CostModel& cost, int32_t rows, int64_t attended);

/// Allocates only in `plan`. Thread: the engine's.
class Scheduler {
 public:
  explicit Scheduler(StepLimits limits);

  /// If there are at most batch_tokens_max and logits_max demands, every decode demand is met, and every step gives
  /// rows to some sequence, unless all wait. Drafts get rows only if rows and rows of logits are left after every
  /// decode row and after what prompts must have: kPromptRowsMin rows, and a row of logits each, or
  /// kScoredRowsMin of them. Shares of decode
  /// demands come first.
  void plan(std::span<const ScheduleInput> demands, const CostModel& cost, std::vector<ScheduledTokens>& plan);
  /// Whether the last plan gave a prompt fewer rows than it wanted, because the step's time was up.
  bool time_was_up() const { return time_was_up_; }

 private:
  // A step while it is filled.
  struct Step {
    int32_t rows = 0;
    int32_t rows_left = 0;
    int32_t logits_left = 0;
    int32_t prompt_rows = 0;
    int64_t attended = 0;
  };

  // How long the step may take, for prompts that are in time and for those that are late.
  struct Budget {
    double step_ns = 0;
    double late_step_ns = 0;
  };

  void add_decodes(std::span<const ScheduleInput> demands, Step& step, std::vector<ScheduledTokens>& plan) const;
  static void add_drafts(std::span<const ScheduleInput> demands, int32_t prompt_logits, Step& step,
                         std::vector<ScheduledTokens>& plan);
  Budget budget_of(std::span<const ScheduleInput> demands, const CostModel& cost, const Step& step,
                   std::span<const ScheduledTokens> decodes) const;
  void add_prompts(std::span<const ScheduleInput> demands, const CostModel& cost, Step& step,
                   std::vector<ScheduledTokens>& plan);
  void note_prompts(std::span<const ScheduleInput> demands);
  std::optional<size_t> next_prompt(std::span<const ScheduleInput> demands, int priority) const;

  // The prompts of a class.
  struct Prompts {
    Holdings had;       // rows of each client that wants some
    int64_t turns = 0;  // shares given so far
  };

  const StepLimits limits_;
  std::array<Prompts, kPriorities> prompts_;
  std::vector<bool> seen_;  // demands that have had their turn in this step
  Stride rows_;
  bool time_was_up_ = false;
};

}  // namespace cairn::engine
