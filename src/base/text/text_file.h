/// Reads the text files that flags, variables and configs name: the one way for all of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn {

inline constexpr size_t kTextFileBytesMax = 32 << 20;  ///< of a file whose reader knows no smaller limit

/// The text in a file's bytes: a byte-order mark is dropped, and UTF-16 that has one becomes UTF-8. Errors:
/// kInvalidArgument that begins with `what` (UTF-32, halves of surrogates, a NUL character, no UTF-8), each with the
/// byte.
Result<std::string> text_of_bytes(std::string bytes, std::string_view what);

/// Reads a file whole. `what` says who names it ("--grammar", "the key file") and begins every error. A pipe is read
/// only as a shell hands it over (/dev/fd/63, /dev/stdin), as a named one may wait for ever. Errors: kNotFound,
/// kInvalidArgument (a folder or another thing that is no file; those of text_of_bytes), kTooLarge, kIo.
Result<std::string> read_text_file(const std::string& path, std::string_view what,
                                   size_t bytes_max = kTextFileBytesMax);
/// The same for standard input.
Result<std::string> read_standard_input(std::string_view what, size_t bytes_max = kTextFileBytesMax);

/// Whether read_text_file would find a file there that may be read. Errors: its own.
Result<void> check_is_file(const std::string& path, std::string_view what);

}  // namespace cairn
