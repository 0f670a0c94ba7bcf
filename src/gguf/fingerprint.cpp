#include "gguf/fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>
#include <variant>

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

uint64_t thorough_fingerprint(const Reader& file, uint64_t seed) {
  constexpr size_t kBytesPerSample = 256;
  uint64_t hash = fingerprint(file, seed);
  for (const auto& [key, value] : file.metadata().values()) {
    hash = hash64(key, hash);
    std::visit(
        [&](const auto& data) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(data)>, Array>)
            hash = hash64(fmt::format("{}", data), hash);
        },
        value.data);
  }
  for (const Tensor& tensor : file.tensors()) {
    const size_t size = std::min(tensor.bytes.size(), kBytesPerSample);
    hash = hash64(tensor.bytes.subspan((tensor.bytes.size() - size) / 2, size), hash);
    hash = hash64(tensor.bytes.last(size), hash);
  }
  return hash;
}

}  // namespace cairn::gguf
