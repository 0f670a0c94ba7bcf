/// A fingerprint that distinguishes models without reading all of a file.
#pragma once

#include <cstdint>

#include "gguf/reader.h"

namespace cairn::gguf {

/// A hash of the tensors' names, types, shapes and first kilobytes, and of the number of bytes: the same wherever and
/// whenever the file was written. Reads one page per tensor. Different seeds give independent values.
uint64_t fingerprint(const Reader& file, uint64_t seed = 0);
/// The same with more of the file: all metadata but arrays, and of each tensor bytes from its middle and end as well.
uint64_t thorough_fingerprint(const Reader& file, uint64_t seed = 0);

}  // namespace cairn::gguf
