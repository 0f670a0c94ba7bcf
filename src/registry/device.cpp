#include "registry/device.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace cairn {
namespace {

using Fits = std::function<Result<void>(const Device&)>;

Result<int32_t> layers_of(const gguf::Reader& file) {
  CAIRN_TRY(const std::string_view architecture, file.metadata().string("general.architecture"));
  CAIRN_TRY(const int64_t layers, file.metadata().integer(fmt::format("{}.block_count", architecture)));
  return static_cast<int32_t>(std::clamp<int64_t>(layers, 0, kGpuLayersAll));
}

/// As many layers as fit on the device's GPU, with the rest on the processor; none if not even one fits. Errors: those
/// of `fits` with one layer.
Result<void> fit_layers(Device& device, int32_t layers, const CpuOptions& cpu, const Fits& fits) {
  CAIRN_TRY(device.first_backend, make_cpu_backend(cpu));
  const auto fit = [&](int32_t on_gpu) {
    device.first_layers = layers - on_gpu;
    return fits(device);
  };
  CAIRN_TRY_VOID(fit(1));
  int32_t most = 1;
  for (int32_t beyond = layers; beyond - most > 1;) {
    const int32_t middle = most + (beyond - most) / 2;
    (fit(middle) ? most : beyond) = middle;
  }
  return fit(most);
}

/// `layers` of the model's, kGpuLayersAuto or kGpuLayersAll.
Result<Device> on_gpu(int32_t wanted, int32_t layers, const CpuOptions& cpu, const Fits& fits) {
  CAIRN_TRY(auto backend, make_cuda_backend({}));
  Device device{std::move(backend), true};
  if (wanted != kGpuLayersAuto && wanted < layers) {
    CAIRN_TRY(device.first_backend, make_cpu_backend(cpu));
    device.first_layers = layers - wanted;
  }
  auto whole = fits(device);
  if (whole) return device;
  if (wanted != kGpuLayersAuto || whole.error().code != Code::kOutOfMemory || layers < 2) {
    return std::unexpected(std::move(whole).error());
  }
  if (!fit_layers(device, layers, cpu, fits)) return std::unexpected(std::move(whole).error());
  log_info("gpu: {} of {} layers: {}", layers - device.first_layers, layers, whole.error().text());
  return device;
}

}  // namespace

Result<Device> choose_device(const gguf::Reader& file, const DeviceWishes& wishes, const Fits& fits) {
  const bool automatic = wishes.gpu_layers == kGpuLayersAuto;
  if (wishes.gpu_layers != 0 && (built_with_cuda() || !automatic)) {
    CAIRN_TRY(const int32_t layers, layers_of(file));
    auto device = on_gpu(wishes.gpu_layers, layers, wishes.cpu, fits);
    if (device || !automatic) return device;
    log_info("gpu: not used: {}", device.error().text());
  }
  CAIRN_TRY(auto backend, make_cpu_backend(wishes.cpu));
  Device device{std::move(backend), false};
  CAIRN_TRY_VOID(fits(device));
  return device;
}

}  // namespace cairn
