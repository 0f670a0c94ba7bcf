/// The engine's core without its thread, in virtual time: requests arrive, clients read, stop reading, cancel or leave,
/// and after every iteration all invariants are checked.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/disk/testing/memory_files.h"
#include "cache/testing/limited_memory.h"
#include "engine/engine_core.h"
#include "engine/testing/collected_response.h"
#include "sim/model.h"

namespace cairn::sim {

/// The state of a request between two iterations, and within a step.
enum class Phase { kQueue, kPrefill, kDecode, kSpeculation, kPreempted, kNone };

/// The behaviour of a client.
struct Client {
  Phase cancels_in = Phase::kNone;
  int32_t cancels_at = 1;                ///< cancels when the request is seen in that phase for the n-th time
  int64_t cancels_after_iteration = -1;  ///< cancels after it in any phase; -1: never
  bool within_step = false;              ///< cancels while a step runs, not between iterations
  bool leaves = false;                   ///< leaves instead of cancelling
  int32_t takes_every = 1;               ///< reads every so many iterations
  std::chrono::nanoseconds silence{0};   ///< reads nothing for this long after submit
};

struct Planned {
  engine::GenerateRequest request;
  std::chrono::nanoseconds arrival{0};  ///< time since the start of the simulation
  Client client;
};

struct SimulationOptions {
  engine::EngineOptions engine;
  ModelOptions model;
  double failing_steps = 0;                 ///< as a share of all steps
  int64_t stops_after_turn = -1;            ///< stops the engine after it; -1: never
  uint64_t seed = 0;                        ///< seed of the failures
  cache::disk::MemoryDisk* disk = nullptr;  ///< of a disk tier, whose pages outlive the simulation; null: no tier
  int64_t disk_calls = -1;  ///< changing calls until the disk hears nothing more of this process; -1: any number
};

/// A request in the simulation.
struct Visitor {
  Planned plan;
  engine::Answer expected;  ///< by the plain loop
  std::shared_ptr<engine::EventChannel> channel;
  engine::Answer answer;  ///< as far as the client has read it
  std::chrono::nanoseconds arrived{0};
  bool refused = false;
  bool gone = false;  ///< whether the client left
  /// Iteration after which a cancelled request must have left nothing behind; -1: not cancelled.
  int64_t gone_by_iteration = -1;
  int32_t seen_in_phase = 0;
  std::array<int64_t, engine::kPriorities> others{};  ///< [class]: admissions between its arrival and its own
  std::chrono::nanoseconds stalled_since{-1};         ///< at the beginning of an iteration; -1: not stalled
  int64_t admitted_iteration = -1;
  int64_t ended_iteration = -1;
};

/// A step's log, for tests of how long streams wait.
struct StepLog {
  int32_t decode_rows = 0;  ///< including drafts
  int32_t prompt_rows = 0;
  double decode_ns = 0;  ///< its time without prompts, noise and other processes
  double ns = 0;
  int32_t slow_for = 0;  ///< steps for which another process has been running; 0: there is none
};

/// Bytes of host memory for a page of every group.
int64_t host_slot_bytes(const cache::KvLayout& layout);

class Simulation {
 public:
  /// `tokenizer` outlives it.
  Simulation(const tokenizer::Tokenizer& tokenizer, const SimulationOptions& options);
  /// Writes what is cached to the disk, as the end of a process does.
  void flush();

  /// Schedules requests by their arrival time; they are in order of time.
  void plan(std::vector<Planned> planned);
  /// Submits a request now; false if it is refused. It is the last of visitors().
  bool submit(Planned planned);
  /// Runs one iteration, then checks all invariants.
  void iterate();
  /// Runs until all requests have ended, and another one after them, then checks what is left.
  void run();
  /// Runs until all submitted requests have ended.
  void settle();
  /// The first problem that was detected; empty if there is none.
  const std::string& problem() const { return problem_; }

  const std::vector<Visitor>& visitors() const { return visitors_; }
  engine::EngineCore& core() { return *core_; }
  VirtualClock& clock() { return clock_; }
  const StepLog& last_step() const { return step_; }
  int64_t iterations() const { return iterations_; }
  const std::array<int64_t, engine::kPriorities>& admissions() const { return admissions_; }
  const std::array<int64_t, engine::kPriorities>& prompt_rows() const { return prompt_rows_; }
  int32_t phases_cancelled_in(Phase phase) const { return cancelled_in_[static_cast<size_t>(phase)]; }
  int64_t refusals() const { return refusals_; }
  int64_t displacements() const { return displacements_; }
  /// Maximum tokens of prompt and answer of the request.
  int32_t tokens_max(const engine::GenerateRequest& request) const;

 private:
  template <typename... Args>
  void wrong(fmt::format_string<Args...> format, Args&&... args) {
    if (problem_.empty())
      problem_ = fmt::format("iteration {}: ", iterations_) + fmt::format(format, std::forward<Args>(args)...);
  }

  // Events.
  void open_disk();
  void work_on_disk();
  void arrive();
  void in_step(const model::Batch& batch);
  void see(Visitor& visitor, Phase phase, bool within_step);
  void cancel(Visitor& visitor, Phase phase, bool within_step);
  void see_phases();
  void mark_admitted(const engine::Sequence& sequence);
  void take_events();
  void wait(engine::EngineCore::Iteration iteration);
  void stop();
  bool done() const;
  Visitor& visitor_of(const engine::Sequence& sequence) { return visitors_[by_channel_.at(&sequence.channel())]; }

  // Checks.
  void check_iteration(engine::EngineCore::Iteration iteration);
  void check_pages();
  void check_group(int32_t group, std::vector<uint64_t>& salts);
  void check_counts();
  void check_cancelled();
  void note_stalled();
  void check_stalled(std::chrono::nanoseconds begin);
  void note_waiting();
  void check_yielded();
  void check_shares();
  void check_displaced(const engine::GenerateRequest& request, const std::unordered_map<uint64_t, int32_t>& before);
  std::unordered_map<uint64_t, int32_t> queued_by_client() const;
  void check_victims();
  void check_finish(size_t i);
  void check_end();

  const tokenizer::Tokenizer& tokenizer_;
  const SimulationOptions options_;
  int32_t sequences_max_;
  VirtualClock clock_;
  std::chrono::nanoseconds start_;
  cache::LimitedMemory memory_;
  Model model_;
  std::shared_ptr<cache::disk::DiskWorker> disk_;  // its work is done between iterations; null: no tier
  std::unique_ptr<engine::EngineCore> core_;
  std::mt19937_64 random_;
  std::vector<Planned> planned_;
  size_t arrived_ = 0;  // number of elements of planned_ that have arrived
  std::vector<Visitor> visitors_;
  std::vector<size_t> present_;  // visitors that have not read their finish
  std::unordered_map<const engine::EventChannel*, size_t> by_channel_;
  std::string problem_;
  int64_t iterations_ = 0;
  int64_t idle_turns_ = 0;  // consecutive ones
  bool stopped_ = false;
  bool in_step_ = false;
  StepLog step_;
  std::vector<SequenceId> ran_;  // sequences that ran when the iteration began
  std::vector<size_t> waited_;   // visitors that could run, and did not, when the iteration began
  std::vector<int32_t> held_;    // scratch: references of running sequences to each page

  int64_t accepted_ = 0;
  int64_t refusals_ = 0;
  int64_t failures_ = 0;
  int64_t displacements_ = 0;  // requests displaced from the queue
  int64_t displaced_ = 0;      // finishes that report it
  int64_t cancelled_ = 0;      // finishes with kCancelled
  bool someone_left_ = false;
  std::array<int64_t, engine::kPriorities> admissions_{};
  std::array<int64_t, engine::kPriorities> prompt_rows_{};
  std::array<int32_t, 6> cancelled_in_{};
};

}  // namespace cairn::sim
