/// The messages that were typed before, in a file that is kept between runs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cairn::terminal {

/// The file keeps none but the last messages.
inline constexpr size_t kHistoryEntriesMax = 1'000;
/// A longer message is remembered until the end of the run alone.
inline constexpr size_t kHistoryEntryBytesMax = 64 << 10;

/// $XDG_STATE_HOME/cairn/history, else ~/.local/state/cairn/history; empty where neither variable says where.
std::filesystem::path default_history_file();

class InputHistory {
 public:
  /// Keeps nothing between runs.
  InputHistory() = default;
  /// Reads the file, which only its owner may read, and makes it shorter if it has become long. Errors: kIo.
  static Result<InputHistory> open(const std::filesystem::path& file);

  /// From the oldest on.
  const std::vector<std::string>& entries() const { return entries_; }
  /// Adds a message, unless it is the last one again. Errors: kIo, the file cannot be written; the message is
  /// remembered all the same.
  Result<void> add(std::string_view message);

 private:
  std::filesystem::path file_;  // empty: none
  std::vector<std::string> entries_;
};

}  // namespace cairn::terminal
