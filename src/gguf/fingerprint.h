/// What tells one model from another without reading all of it.
#pragma once

#include <cstdint>

#include "gguf/reader.h"

namespace cairn::gguf {

/// Of the tensors' names, types, shapes and first kilobytes, and of the files' bytes: the same wherever and whenever
/// the file was written. Reads a page a tensor. `seed` gives other, independent values.
uint64_t fingerprint(const Reader& file, uint64_t seed = 0);

}  // namespace cairn::gguf
