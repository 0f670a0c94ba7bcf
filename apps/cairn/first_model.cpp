#include "first_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/system/machine.h"
#include "base/system/memory_bandwidth.h"
#include "base/text/bytes_text.h"
#include "model_argument.h"
#include "output.h"
#include "talk/status_line.h"
#include "terminal/raw_mode.h"

namespace cairn {
namespace {

bool on_terminal() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && terminal::moves_cursor(); }

std::string description(const loader::Proposal& each) {
  const std::string speed = speed_text(each.tokens_per_second);
  return fmt::format("{}, {}{}{}{}", bytes_text(each.model.file_bytes), speed, speed.empty() ? "" : ", ",
                     each.model.good_for, each.fit == loader::Fit::kTight ? ", fits tightly" : "");
}

constexpr char kInterruptKey = '\x03';

/// The key that is pressed; 0: none, the input has ended.
Result<char> pressed_key() {
  CAIRN_TRY(const auto raw, terminal::RawMode::enter(STDIN_FILENO));
  std::array<char, 64> bytes{};  // a key may send several, which belong to nothing else
  return ::read(STDIN_FILENO, bytes.data(), bytes.size()) > 0 ? bytes.front() : '\0';
}

}  // namespace

std::string speed_text(double tokens_per_second) {
  if (tokens_per_second <= 0) return "";
  if (tokens_per_second < 1) return "less than 1 token/s";
  return fmt::format("about {:.0f} token{}/s", tokens_per_second, tokens_per_second < 1.5 ? "" : "s");
}

int64_t bandwidth_shown() {
  const StatusLine status([] { return "measuring how fast this machine reads memory"; });
  return memory_bandwidth();
}

FirstModels::FirstModels(int64_t memory_max)
    : available_(std::min(available_memory_bytes(), memory_max)),
      models_(loader::proposals(available_, bandwidth_shown())) {}

std::vector<std::string> FirstModels::lines(std::string_view command) const {
  if (models_.empty()) {
    const loader::KnownModel& smallest = loader::known_models().front();
    return {
        fmt::format("none of the models that Cairn knows fits into the {} that are free: the smallest, {}, takes {}",
                    bytes_text(available_), smallest.name, bytes_text(smallest.memory_bytes))};
  }
  size_t width = 0;
  for (const loader::Proposal& each : models_) width = std::max(width, each.model.name.size());
  std::vector<std::string> lines;
  for (const loader::Proposal& each : models_)
    lines.push_back(fmt::format("cairn {} {:<{}}   # {}", command, each.model.name, width, description(each)));
  return lines;
}

std::string FirstModels::text(std::string_view command) const {
  std::string text;
  for (const std::string& line : lines(command)) text += "  " + line + "\n";
  return text;
}

Result<std::string> FirstModels::offer(std::string_view otherwise, const std::string& folder) const {
  if (!on_terminal() || models_.empty()) {
    CAIRN_TRY_VOID(show(text("run")));
    return std::string();
  }
  std::string text;
  const std::vector<std::string> all = lines("run");
  for (size_t i = 0; i < all.size(); ++i) text += fmt::format("  {}  {}\n", i + 1, all[i]);
  text += fmt::format("Press {} to get one and talk to it, or any other key to {}. ",
                      all.size() == 1 ? "1" : fmt::format("1 to {}", all.size()), otherwise);
  CAIRN_TRY_VOID(show(text));
  CAIRN_TRY(const char key, pressed_key());
  const bool chosen = key >= '1' && key < static_cast<char>('1' + all.size());
  CAIRN_TRY_VOID(show(chosen ? fmt::format("{}\n", key) : "\n"));
  if (key == kInterruptKey) return fail(Code::kCancelled, "stopped; nothing was downloaded");
  if (!chosen) return std::string();
  const std::string name(models_[static_cast<size_t>(key - '1')].model.name);
  CAIRN_TRY(const loader::CatalogModel model, find_model(name, {.folder = folder, .pull = true}));
  return model.path.string();
}

}  // namespace cairn
