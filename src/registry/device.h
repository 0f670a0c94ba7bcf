/// Which device a model runs on: a GPU if it can, or the processor.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include "base/error.h"
#include "gguf/reader.h"
#include "kernels/backend.h"

namespace cairn {

/// Layers on the GPU: all where that works, else none; or all, else an error.
inline constexpr int32_t kGpuLayersAuto = -1;
inline constexpr int32_t kGpuLayersAll = std::numeric_limits<int32_t>::max();

struct DeviceWishes {
  int32_t gpu_layers = kGpuLayersAuto;  ///< one of those, 0, or a number, which must be that of all layers or more
  CpuOptions cpu{};
};

struct Device {
  std::unique_ptr<Backend> backend;
  bool gpu = false;  ///< its memory is not the machine's
};

/// A device on which `fits` says that the model's file can be loaded. With kGpuLayersAuto the processor comes after the
/// GPU, and why is logged. Errors: kUnsupported (some of the layers only; the GPU's), those of the backends and of
/// `fits`.
Result<Device> choose_device(const gguf::Reader& file, const DeviceWishes& wishes,
                             const std::function<Result<void>(const Device&)>& fits);

}  // namespace cairn
