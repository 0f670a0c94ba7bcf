#include "loader/layer_division.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "base/check.h"

namespace cairn::loader {
namespace {

/// More than any model has.
constexpr int64_t kDividedLayersMax = 1 << 16;

/// The number in "blk.N.…"; -1 for other names.
int64_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  int64_t layer = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  return error == std::errc() && end != name.data() + name.size() && *end == '.' ? layer : -1;
}

}  // namespace

Result<LayerBytes> layer_bytes(const gguf::Reader& file) {
  CAIRN_TRY(const std::string_view architecture, file.metadata().string("general.architecture"));
  CAIRN_TRY(const int64_t layers, file.metadata().integer(fmt::format("{}.block_count", architecture)));
  if (layers < 1 || layers > kDividedLayersMax) {
    return fail(Code::kCorruptFile, "{}.block_count is {}; a model has 1 to {} layers", architecture, layers,
                kDividedLayersMax);
  }
  LayerBytes bytes;
  bytes.layers.resize(static_cast<size_t>(layers));
  for (const auto& tensor : file.tensors()) {
    const auto size = static_cast<int64_t>(tensor.bytes.size());
    const int64_t layer = layer_of(tensor.name);
    if (layer >= 0 && layer < std::ssize(bytes.layers)) {
      bytes.layers[layer] += size;
    } else if (tensor.name == "token_embd.weight") {
      bytes.embedding += size;
    } else if (layer < 0 && tensor.name != "per_layer_token_embd.weight") {  // that one stays in the file
      bytes.output += size;
    }
  }
  if (file.find_tensor("output.weight") == nullptr) bytes.output += bytes.embedding;
  return bytes;
}

std::vector<int32_t> divide_layers(const LayerBytes& bytes, int32_t layers, std::span<const int64_t> free_bytes) {
  const auto devices = static_cast<int32_t>(free_bytes.size());
  const auto all = static_cast<int32_t>(bytes.layers.size());
  CAIRN_CHECK(devices > 0 && devices <= layers && layers <= all);
  const std::span<const int64_t> own = std::span(bytes.layers).last(layers);
  const int64_t before = layers == all ? bytes.embedding : 0;
  const auto weights = static_cast<double>(std::accumulate(own.begin(), own.end(), before + bytes.output));
  const int64_t room = std::max<int64_t>(1, std::accumulate(free_bytes.begin(), free_bytes.end(), int64_t{0}));
  std::vector<int32_t> counts;
  auto taken = static_cast<double>(before), free = 0.0;
  int32_t next = 0;
  for (int32_t device = 0; device + 1 < devices; ++device) {
    free += static_cast<double>(free_bytes[device]);
    const double share = weights * free / static_cast<double>(room);
    const int32_t begin = next, most = layers - (devices - 1 - device);  // each one after it has a layer too
    do {
      taken += static_cast<double>(own[next++]);
      // The next one stays here if most of it belongs here.
    } while (next < most && taken + static_cast<double>(own[next]) / 2 < share);
    counts.push_back(next - begin);
  }
  counts.push_back(layers - next);
  return counts;
}

}  // namespace cairn::loader
