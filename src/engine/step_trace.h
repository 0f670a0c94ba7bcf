/// A record of each step in a file, as lines of JSON: what was in the batch, and how long it took.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace cairn::engine {

/// Records that wait to be written; further ones are lost, and counted.
inline constexpr size_t kStepRecordsWaitingMax = 1'024;
/// A file that has become so large is renamed to FILE.1, in place of an older one, and begun again.
inline constexpr int64_t kStepTraceBytesMax = int64_t{64} << 20;
/// Sequences of a step that are named; their number is told in any case.
inline constexpr size_t kTracedSharesMax = 32;

struct StepRecord {
  /// What one sequence had of the step.
  struct Share {
    int64_t sequence = 0;
    int32_t rows = 0;
    bool decode = false;  ///< a stream's token and its drafts; otherwise rows of a prompt
  };

  std::shared_ptr<const std::string> model{};  ///< its name
  int64_t step = 0;                            ///< of its engine, from 1
  int64_t begin_ns = 0;                        ///< of a steady clock
  int64_t duration_ns = 0;                     ///< all of the iteration
  int64_t drafting_ns = 0;                     ///< of it
  int64_t predicted_ns = 0;                    ///< what the scheduler expected without drafting; 0: it did not know
  int64_t budget_ns = 0;                       ///< what prompts may add to a step in which streams decode
  int32_t prompt_rows = 0;
  int32_t decode_rows = 0;
  int32_t sequences = 0;
  int32_t waiting = 0;                           ///< requests in the queue
  int64_t attended = 0;                          ///< sum over all rows of the positions that each attends to
  std::array<Share, kTracedSharesMax> shares{};  ///< of the first `sequences`
};

/// Owns a thread, which writes. Thread-safe; adding allocates nothing.
class StepTrace {
 public:
  /// Appends to `path`. Errors: kIo.
  static Result<std::unique_ptr<StepTrace>> open(const std::string& path, int64_t bytes_max = kStepTraceBytesMax);
  /// Writes what waits.
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// Does not wait: where the writer is busy or far behind, the record is lost.
  void add(const StepRecord& record) noexcept;
  int64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  StepTrace(std::string path, int file, int64_t file_bytes, int64_t bytes_max);
  void run();
  void write(const std::vector<StepRecord>& records);
  void begin_again();

  const std::string path_;
  const int64_t bytes_max_;
  int file_;
  int64_t file_bytes_;  // the thread's, as is file_
  std::atomic<int64_t> lost_ = 0;
  std::mutex mutex_;
  std::condition_variable ends_changed_;
  std::vector<StepRecord> waiting_;
  bool ends_ = false;
  std::thread thread_;
};

/// The record as one line of JSON, without a line feed.
std::string step_json(const StepRecord& record);

}  // namespace cairn::engine
