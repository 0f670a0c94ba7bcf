#include "engine/step_trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "base/text/json.h"

namespace cairn::engine {
namespace {

constexpr int kOwnerOnly = 0600;
/// How often the writer looks for records.
constexpr std::chrono::milliseconds kWriteInterval{100};

int open_file(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kOwnerOnly);
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

double milliseconds(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

}  // namespace

std::string step_json(const StepRecord& record) {
  std::string line = fmt::format(
      R"({{"model":{},"step":{},"time":{:.6f},"ms":{:.3f},"drafting_ms":{:.3f},"predicted_ms":{:.3f},"budget_ms":{:.3f},)"
      R"("prompt_rows":{},"decode_rows":{},"sequences":{},"waiting":{},"attended":{},"shares":[)",
      json_text(record.model == nullptr ? std::string() : *record.model), record.step,
      static_cast<double>(record.begin_ns) * 1e-9, milliseconds(record.duration_ns), milliseconds(record.drafting_ns),
      milliseconds(record.predicted_ns), milliseconds(record.budget_ns), record.prompt_rows, record.decode_rows,
      record.sequences, record.waiting, record.attended);
  const auto named = std::min<size_t>(static_cast<size_t>(record.sequences), kTracedSharesMax);
  for (size_t i = 0; i < named; ++i) {
    const StepRecord::Share& share = record.shares[i];
    line += fmt::format(R"({}{{"sequence":{},"rows":{},"decode":{}}})", i > 0 ? "," : "", share.sequence, share.rows,
                        share.decode);
  }
  return line + "]}";
}

Result<std::unique_ptr<StepTrace>> StepTrace::open(const std::string& path, int64_t bytes_max) {
  const int file = open_file(path);
  struct stat status{};
  if (file < 0 || ::fstat(file, &status) != 0) {
    const int reason = errno;
    if (file >= 0) ::close(file);
    return fail(Code::kIo, "cannot write records of steps to {}: {}", path, std::strerror(reason));
  }
  return std::unique_ptr<StepTrace>(new StepTrace(path, file, status.st_size, bytes_max));
}

StepTrace::StepTrace(std::string path, int file, int64_t file_bytes, int64_t bytes_max)
    : path_(std::move(path)), bytes_max_(bytes_max), file_(file), file_bytes_(file_bytes) {
  waiting_.reserve(kStepRecordsWaitingMax);
  thread_ = std::thread([this] { run(); });
}

StepTrace::~StepTrace() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ends_changed_.notify_all();
  thread_.join();
  ::close(file_);
}

void StepTrace::add(const StepRecord& record) noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || waiting_.size() == kStepRecordsWaitingMax) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  waiting_.push_back(record);
}

void StepTrace::run() {
  std::vector<StepRecord> records;
  records.reserve(kStepRecordsWaitingMax);
  bool ends = false;
  while (!ends) {
    {
      std::unique_lock lock(mutex_);
      ends_changed_.wait_for(lock, kWriteInterval, [this] { return ends_; });
      ends = ends_;
      std::swap(records, waiting_);
    }
    write(records);
    records.clear();
  }
}

void StepTrace::write(const std::vector<StepRecord>& records) {
  std::string text;
  for (const StepRecord& record : records) text += step_json(record) + "\n";
  if (text.empty()) return;
  if (file_bytes_ > 0 && file_bytes_ + std::ssize(text) > bytes_max_) begin_again();
  if (write_all(file_, text)) {
    file_bytes_ += std::ssize(text);
  } else if (lost_.fetch_add(std::ssize(records)) == 0) {
    log_warning("records of steps cannot be written to {}: {} (said once)", path_, std::strerror(errno));
  }
}

void StepTrace::begin_again() {
  const std::string older = path_ + ".1";
  if (std::rename(path_.c_str(), older.c_str()) != 0) return log_warning("{} cannot be renamed to {}", path_, older);
  const int file = open_file(path_);
  if (file < 0) return log_warning("{} cannot be begun again: {}", path_, std::strerror(errno));
  ::close(std::exchange(file_, file));
  file_bytes_ = 0;
}

}  // namespace cairn::engine
