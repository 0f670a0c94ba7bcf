/// How the layers of a model are divided between devices of different sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::loader {

/// Bytes of a model's weights in its file.
struct LayerBytes {
  std::vector<int64_t> layers;
  int64_t embedding = 0;  ///< of the device with the first layer
  int64_t output = 0;     ///< of the one with the last; the embedding again if it is the output too
};

/// Errors: kCorruptFile, without a number of layers.
Result<LayerBytes> layer_bytes(const gguf::Reader& file);

/// How many of the last `layers` layers each device gets, at least one, so that the weights are divided nearly as
/// `free_bytes`; at most as many devices as layers. If they are all layers, the first device has the embedding too.
std::vector<int32_t> divide_layers(const LayerBytes& bytes, int32_t layers, std::span<const int64_t> free_bytes);

}  // namespace cairn::loader
