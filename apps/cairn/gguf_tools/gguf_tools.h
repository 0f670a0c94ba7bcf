/// The subcommands of `cairn gguf`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "convert/contents.h"
#include "progress_line.h"

namespace cairn {

/// Adds `set` and `remove`, `splice`, `split`, `merge`, `diff` or `verify`.
void add_gguf_edit(CLI::App& gguf, int& exit_code);
void add_gguf_splice(CLI::App& gguf, int& exit_code);
void add_gguf_split(CLI::App& gguf, int& exit_code);
void add_gguf_diff(CLI::App& gguf, int& exit_code);
void add_gguf_verify(CLI::App& gguf, int& exit_code);

/// Shows how far a file was read or copied.
class CopyLine {
 public:
  convert::OnCopy on_copy() {
    return [this](const convert::CopyProgress& now) {
      line_.show(fmt::format("{}  {}", clock_.text(now.bytes_done, now.bytes_total), now.tensor));
    };
  }

 private:
  ProgressLine line_;
  ProgressClock clock_;
};

inline constexpr const char* kNewFileHelp = "File to write; it appears when it is complete";

}  // namespace cairn
