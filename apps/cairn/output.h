/// Standard output: the one place that writes to it. What a command prints is worth nothing if nobody gets it, so the
/// first write that fails is remembered, and the program's exit code says so.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/error.h"

namespace cairn {

/// Sees to it that the standard descriptors are open, so that no file of the program becomes one of them.
void open_standard_descriptors();

/// Writes through a buffer. What follows a failure is passed over.
void print_text(std::string_view text);

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}

/// Has everything that was printed written, for who waits for it. Errors: kIo once any of it was not taken, which ends
/// a command that has more to print.
Result<void> flush_output();
/// Text that is to be seen at once. Errors: those of flush_output.
Result<void> show(std::string_view text);

/// Whether nobody reads what is printed any more, of which no program makes words.
bool output_reader_gone();
/// Whether any of what was printed was not taken.
bool output_failed();

/// At the program's end: `exit_code`, or kExitFailed with a line on standard error if output was lost. Where the reader
/// of a pipe has gone, the program ends by SIGPIPE without a word, as others do.
int end_output(int exit_code);

}  // namespace cairn
