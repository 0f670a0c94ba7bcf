#include "pull_flags.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>

#include "base/system/machine.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "gguf/model_folder.h"
#include "progress_line.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::atomic<bool> pull_stopped = false;

/// Sets `pull_stopped` at SIGINT while it lives.
class StopAtInterrupt {
 public:
  StopAtInterrupt() {
    struct sigaction action{};
    action.sa_handler = [](int) { pull_stopped = true; };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before_);
  }
  ~StopAtInterrupt() { sigaction(SIGINT, &before_, nullptr); }
  StopAtInterrupt(const StopAtInterrupt&) = delete;
  StopAtInterrupt& operator=(const StopAtInterrupt&) = delete;

 private:
  struct sigaction before_{};
};

/// What a pull says, as a person reads it.
class PullDisplay {
 public:
  void show(const hub::PullEvent& event) {
    if (!event.progress()) return say(event.status);
    if (event.status != status_) begin(event);
    const int percent = static_cast<int>(event.completed * 100 / event.total);
    measure(event.completed);
    line_.show(bar(event, percent));
    if (line_.on_terminal() || percent / kLinePercent <= shown_percent_ / kLinePercent) return;
    shown_percent_ = percent;
    std::fprintf(stderr, "%s: %d %% of %s\n", event.status.c_str(), percent, bytes_text(event.total).c_str());
  }

 private:
  static constexpr int kLinePercent = 10;  // between lines that are no terminal's
  static constexpr int kBarWidth = 10;
  static constexpr double kNewShare = 0.3;  // of the last second in the rate

  void say(const std::string& status) {
    if (status == status_) return;  // each step of a check says it again
    status_ = status;
    line_.show("");
    std::fprintf(stderr, "%s\n", printable(status, 1'000).c_str());
  }

  void begin(const hub::PullEvent& event) {
    status_ = event.status;
    shown_percent_ = 0;
    rate_ = 0;
    measured_ = Clock::now();
    measured_bytes_ = event.completed;
    if (event.completed > 0 && event.completed < event.total)
      std::fprintf(stderr, "%s: %s of %s are there\n", event.status.c_str(), bytes_text(event.completed).c_str(),
                   bytes_text(event.total).c_str());
  }

  void measure(int64_t completed) {
    const std::chrono::duration<double> time = Clock::now() - measured_;
    if (time < std::chrono::seconds(1)) return;
    const double fresh = static_cast<double>(completed - measured_bytes_) / time.count();
    rate_ = rate_ == 0 ? fresh : rate_ + kNewShare * (fresh - rate_);
    measured_ = Clock::now();
    measured_bytes_ = completed;
  }

  std::string bar(const hub::PullEvent& event, int percent) const {
    const int filled = percent * kBarWidth / 100;
    std::string text =
        fmt::format("{} {:3} % [{}{}] {}/{}", event.status, percent, std::string(filled, '='),
                    std::string(kBarWidth - filled, ' '), bytes_text(event.completed), bytes_text(event.total));
    if (rate_ < 1) return text;
    const auto left = static_cast<int64_t>(static_cast<double>(event.total - event.completed) / rate_);
    return text + fmt::format(", {}/s, {}:{:02} left", bytes_text(static_cast<int64_t>(rate_)), left / 60, left % 60);
  }

  ProgressLine line_;
  std::string status_;
  int shown_percent_ = 0;
  double rate_ = 0;  // bytes per second
  Clock::time_point measured_{};
  int64_t measured_bytes_ = 0;
};

}  // namespace

void add_models_flag(CLI::App& command, std::string& folder) {
  command
      .add_option("--models", folder,
                  "Folder of downloaded models (default: cairn/models in $XDG_DATA_HOME or ~/.local/share)")
      ->type_name("FOLDER");
}

CLI::Option* add_hugging_face_flag(CLI::App& command, std::string& repository) {
  return command.add_option("--hf-repo", repository,
                            "Model of Hugging Face, as ORG/REPO[:QUANTISATION] or ORG/REPO/FILE.gguf, which is "
                            "downloaded if it is not there (also -hf, as llama-server has it)");
}

Result<hub::PullOptions> pull_options(const std::string& folder) {
  hub::PullOptions options;
  options.folder = folder;
  if (folder.empty()) {
    CAIRN_TRY(options.folder, gguf::default_models_folder());
  }
  std::error_code error;
  options.folder = fs::absolute(options.folder, error).lexically_normal();
  if (!options.folder.has_filename()) options.folder = options.folder.parent_path();  // a '/' at the end
  CAIRN_TRY(options.endpoints, hub::Endpoints::from_environment());
  options.memory_bytes = available_memory_bytes();
  return options;
}

Result<std::vector<fs::path>> pull_shown(const hub::ModelName& name, const hub::PullOptions& options) {
  const StopAtInterrupt interrupts;
  PullDisplay display;
  auto paths = hub::pull(name, options, [&](const hub::PullEvent& event) { display.show(event); }, pull_stopped);
  if (!paths && paths.error().code == Code::kCancelled)
    return fail(Code::kCancelled, "stopped; what is loaded stays, and cairn pull {} goes on", name.text());
  return paths;
}

}  // namespace cairn
