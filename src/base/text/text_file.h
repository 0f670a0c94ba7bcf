/// Reads the text files that flags, variables and configs name, and standard input: the one way for all of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn {

inline constexpr size_t kTextFileBytesMax = 32 << 20;  ///< of a file whose reader knows no smaller limit
inline constexpr size_t kInputLineBytesMax = size_t{64} << 20;

/// The text in a file's bytes: a byte-order mark is dropped, and UTF-16 that has one becomes UTF-8. Errors:
/// kInvalidArgument that begins with `what` (UTF-32, halves of surrogates, a NUL character, no UTF-8), each with the
/// byte.
Result<std::string> text_of_bytes(std::string bytes, std::string_view what);

/// Errors: those of text_of_bytes for what has no mark.
Result<void> check_text(std::string_view text, std::string_view what);

/// Reads a file whole. `what` says who names it ("--grammar", "the key file") and begins every error. A pipe is read
/// only as a shell hands it over (/dev/fd/63, /dev/stdin), as a named one may wait for ever. Errors: kNotFound,
/// kInvalidArgument (a folder or another thing that is no file; those of text_of_bytes), kTooLarge, kIo.
Result<std::string> read_text_file(const std::string& path, std::string_view what,
                                   size_t bytes_max = kTextFileBytesMax);
/// The same for standard input.
Result<std::string> read_standard_input(std::string_view what, size_t bytes_max = kTextFileBytesMax);

/// Reads standard input (or another descriptor, which stays open) line by line, as the lines come.
class LineInput {
 public:
  /// `interrupted`: reading ends if a signal has set it.
  explicit LineInput(int descriptor = 0, const std::atomic<bool>* interrupted = nullptr)
      : descriptor_(descriptor), interrupted_(interrupted) {}

  /// The next line without its LF, of any bytes; the first kInputLineBytesMax + 1 of a longer one (check_line_length).
  /// nullopt: the end, or `interrupted` was set, and then what had come of the line is dropped. A byte-order mark at
  /// the beginning is dropped, and UTF-16 that has one is read to its end and becomes UTF-8. Errors: kIo; of UTF-16
  /// those of read_standard_input.
  Result<std::optional<std::string>> next();

 private:
  Result<bool> fill();
  Result<void> begin();

  int descriptor_;
  const std::atomic<bool>* interrupted_;
  bool begun_ = false;
  std::string pending_;
  size_t taken_ = 0;  // of pending_
};

/// Error (kTooLarge): the line has over kInputLineBytesMax bytes.
Result<void> check_line_length(std::string_view line);

/// Whether read_text_file would find a file there that may be read. Errors: its own.
Result<void> check_is_file(const std::string& path, std::string_view what);

}  // namespace cairn
