// cairn pull, cairn rm: models from the hubs, and away again.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/system/machine.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "catalog_flags.h"
#include "commands.h"
#include "gguf/model_folder.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "loader/catalog/made_model.h"
#include "loader/catalog/model_names.h"
#include "output.h"
#include "progress_line.h"
#include "pull_flags.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kModelPathShownMax = 400;

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

struct PullFlags {
  std::string name;
  std::string models;
  bool projector = false;
  int64_t memory_bytes = 0;
};

Result<void> pull(const PullFlags& flags) {
  CAIRN_TRY(const hub::ModelName name, hub::parse_model_name(flags.name));
  CAIRN_TRY(hub::PullOptions options, pull_options(flags.models));
  options.projector = flags.projector;
  if (flags.memory_bytes > 0) options.memory_bytes = flags.memory_bytes;
  CAIRN_TRY(const auto paths, pull_shown(name, options));
  for (const fs::path& path : paths) print("{}\n", path.string());
  return {};
}

/// Why a model that is not in the folder of those that were pulled cannot be deleted.
Error not_deleted(const PullFlags& flags, const fs::path& folder, const std::string& reason) {
  CatalogFlags catalog;
  catalog.folder = folder.string();
  const std::vector<loader::CatalogModel> models = catalog.scan().models;
  std::vector<loader::ModelNames> names;
  for (const loader::CatalogModel& model : models) names.push_back({model.name, model.aliases, model.kind});
  const auto found = loader::find_by_whole_name(names, flags.name, loader::ModelKind::kChat);
  if (!found || !*found) {
    return {Code::kNotFound,
            fmt::format("{}{}; cairn list shows what is here", reason, loader::names_like_hint(names, flags.name)),
            {}};
  }
  const loader::CatalogModel& model = models[**found];
  const std::string path = printable(model.path.string(), kModelPathShownMax);
  if (gguf::pulled_name(model.path.lexically_relative(folder)))
    return {Code::kNotFound, fmt::format("{}; did you mean {}?", reason, printable(model.name)), {}};
  if (model.source == loader::ModelSource::kOwn)
    return {
        Code::kInvalidArgument, fmt::format("{} was not pulled: delete its file yourself, {}", model.name, path), {}};
  return {Code::kInvalidArgument,
          fmt::format("{} is of another program ({}), whose own commands delete it; its file is {}", model.name,
                      loader::source_name(model.source), path),
          {}};
}

Result<void> remove(const PullFlags& flags) {
  CAIRN_TRY(const hub::PullOptions options, pull_options(flags.models));
  CAIRN_TRY(const bool made, loader::remove_made(options.folder, flags.name));
  if (made) {
    print("deleted {}, which was made of another model\n", flags.name);
    return {};
  }
  const auto name = hub::parse_model_name(flags.name);
  if (!name) return std::unexpected(not_deleted(flags, options.folder, name.error().message));
  const auto removed = hub::remove_pulled(*name, options.folder);
  if (!removed && removed.error().code == Code::kNotFound)
    return std::unexpected(not_deleted(flags, options.folder, removed.error().message));
  if (!removed) return std::unexpected(removed.error());
  for (const fs::path& path : removed->files) print("deleted {}\n", path.string());
  print("{} are free again\n", bytes_text(removed->bytes));
  return {};
}

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

void add_pull(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("pull", "Download a model. It prints the paths of its files");
  auto flags = std::make_shared<PullFlags>();
  set_help(*command, "cairn pull qwen3:4b");
  command->add_option("NAME", flags->name, std::string(kNameHelp))->required();
  add_models_flag(*command, flags->models);
  command->add_flag("--mmproj", flags->projector, "Download the model's vision projector, too");
  command
      ->add_option("--memory", flags->memory_bytes,
                   "Memory that the model may use, which decides the quantisation (default: what is free now)")
      ->transform(byte_size(1));
  command->callback([flags, &exit_code] {
    if (const auto done = pull(*flags); !done) exit_code = report(done.error());
  });
}

void add_rm(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("rm", "Delete a downloaded or created model, and the rest of an unfinished download");
  set_help(*command, "cairn rm qwen3:4b");
  auto flags = std::make_shared<PullFlags>();
  command->add_option("NAME", flags->name, "The name that cairn pull was given, or that of a created model")
      ->required();
  add_models_flag(*command, flags->models);
  command->callback([flags, &exit_code] {
    if (const auto done = remove(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
