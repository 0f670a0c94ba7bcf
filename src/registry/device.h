/// Which device a model runs on: a GPU if it can, or the processor, or both.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include "base/error.h"
#include "gguf/reader.h"
#include "kernels/backend.h"
#include "model/model.h"

namespace cairn {

/// Layers on the GPU: as many as fit, perhaps none; or all, else an error.
inline constexpr int32_t kGpuLayersAuto = -1;
inline constexpr int32_t kGpuLayersAll = std::numeric_limits<int32_t>::max();

struct DeviceWishes {
  int32_t gpu_layers = kGpuLayersAuto;  ///< one of those, 0, or a number: of the last ones, and the output
  CpuOptions cpu{};
};

struct Device {
  std::unique_ptr<Backend> backend;
  bool gpu = false;  ///< its memory is not the machine's
  std::unique_ptr<Backend> first_backend =
      nullptr;               ///< the processor, of layers before the GPU's; null: there are none
  int32_t first_layers = 0;  ///< how many those are

  FirstLayers first() const { return {first_backend.get(), first_layers}; }
};

/// A device on which `fits` says that the model's file can be loaded. With kGpuLayersAuto, where memory is short on the
/// GPU, as many layers as fit there are on it; otherwise the processor comes after the GPU. Why is logged. Errors:
/// those of the backends and of `fits`.
Result<Device> choose_device(const gguf::Reader& file, const DeviceWishes& wishes,
                             const std::function<Result<void>(const Device&)>& fits);

}  // namespace cairn
