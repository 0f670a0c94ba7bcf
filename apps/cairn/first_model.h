/// Models for people who have none yet: which ones fit this machine, and an offer to get one.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "loader/proposals.h"

namespace cairn {

/// memory_bandwidth(), whose first call takes a while: a terminal is told what for.
int64_t bandwidth_shown();
/// "about 9 tokens/s"; empty where that is not known.
std::string speed_text(double tokens_per_second);

class FirstModels {
 public:
  /// Measures how fast memory is, once in a process, which takes half a second. `memory_max`: of the machine's memory.
  explicit FirstModels(int64_t memory_max = std::numeric_limits<int64_t>::max());

  /// A command and what it brings each: "cairn run qwen3:4b   # 2.3 GiB, about 9 tokens/s, general chat". Where nothing
  /// fits, a line that says so.
  std::vector<std::string> lines(std::string_view command) const;
  /// The same as a paragraph.
  std::string text(std::string_view command) const;
  /// On a terminal, asks which one to get, by one key; gets it into the folder of models (empty: the default one) and
  /// returns its file. Empty: another key, which does what `otherwise` says, or there is no terminal, and then the text
  /// is all that is shown. Errors: kCancelled (Ctrl-C) and those of pulling.
  Result<std::string> offer(std::string_view otherwise, const std::string& folder) const;

 private:
  int64_t available_;
  std::vector<loader::Proposal> models_;
};

}  // namespace cairn
