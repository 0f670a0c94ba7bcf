/// Which devices a model runs on: GPUs if it can, or the processor, or both.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_options.h"
#include "model/model_options.h"

namespace cairn::kernels {
class Backend;
class DeviceMemory;
}  // namespace cairn::kernels

namespace cairn::loader {

/// Layers on GPUs: as many as fit, perhaps none; or all, else an error.
inline constexpr int32_t kGpuLayersAuto = -1;
inline constexpr int32_t kGpuLayersAll = std::numeric_limits<int32_t>::max();
/// GPUs that one model is on at most, beside the processor.
inline constexpr int32_t kGpusMax = model::kStagesMax - 1;

struct DeviceRequest {
  int32_t gpu_layers = kGpuLayersAuto;  ///< one of those, 0, or a number: of the last ones, and the output
  kernels::CpuOptions cpu{};
};

struct DevicePart {
  /// Its only owner; a shared_ptr, because readers of this header need not know what a Backend is.
  std::shared_ptr<kernels::Backend> backend;
  bool gpu = false;    ///< its memory is not the machine's
  int32_t layers = 0;  ///< of those that come next; of the last part, which has the rest, 0
};

struct Device {
  /// In the order of the layers: the processor first, if it is one of several.
  std::vector<DevicePart> parts{};

  /// The model's own, of the last layers and the output.
  kernels::Backend& backend() const { return *parts.back().backend; }
  bool on_gpu() const { return !parts.empty() && parts.back().gpu; }
  /// The parts as load_model takes them.
  std::vector<model::PipelineStage> stages() const;
  /// Memory of the parts, by KvGroup::device.
  std::vector<kernels::DeviceMemory*> memories() const;
  /// "cpu avx2, 2 threads", "cuda NVIDIA H100; before it cpu avx2, 2 threads for 4 layers".
  std::string text() const;
};

/// Whether the model's file can be loaded on a device, and if so, whether contexts are as long there as they should be.
using Fits = std::function<Result<bool>(const Device&)>;

/// A device on which the model fits, of which `fits` was asked last: the first GPU, or as many as it takes for contexts
/// as long as they should be, in the order in which CUDA counts them, with layers divided by their free memory. With
/// kGpuLayersAuto, where all of them are short of memory, as many layers as fit there are on them; otherwise the
/// processor comes after the GPUs. Why is logged. Errors: those of the backends and of `fits`.
Result<Device> choose_device(const gguf::Reader& file, const DeviceRequest& request, const Fits& fits);

}  // namespace cairn::loader
