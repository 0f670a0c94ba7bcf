#include "gguf/fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/hash.h"

namespace cairn::gguf {

uint64_t fingerprint(const Reader& file, uint64_t seed) {
  constexpr size_t kBytesPerTensor = 1024;  // hashing all bytes would take as long as reading the file
  uint64_t hash = hash64(fmt::format("{}", file.file_bytes()), seed);
  for (const Tensor& tensor : file.tensors()) {
    hash =
        hash64(fmt::format("{} {} {}", tensor.name, tensor_type_name(tensor.type), fmt::join(tensor.shape, " ")), hash);
    hash = hash64(tensor.bytes.first(std::min(tensor.bytes.size(), kBytesPerTensor)), hash);
  }
  return hash;
}

}  // namespace cairn::gguf
