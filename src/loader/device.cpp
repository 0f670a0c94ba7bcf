#include "loader/device.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "loader/layer_division.h"
#include "model/model.h"

namespace cairn::loader {
namespace {

bool has_processor(const Device& device) { return !device.parts.front().gpu; }
int32_t gpus_of(const Device& device) {
  return static_cast<int32_t>(std::ranges::count(device.parts, true, &DevicePart::gpu));
}

/// Gives the GPUs the last `on_gpu` layers, at least one each, and the processor what is before them.
void divide(const LayerBytes& bytes, int32_t on_gpu, Device& device) {
  const bool processor = has_processor(device);
  if (processor) device.parts.front().layers = static_cast<int32_t>(bytes.layers.size()) - on_gpu;
  const std::span<DevicePart> gpus = std::span(device.parts).subspan(processor ? 1 : 0);
  std::vector<int64_t> free;
  for (const DevicePart& part : gpus) free.push_back(part.backend->available_bytes());
  const std::vector<int32_t> counts = divide_layers(bytes, on_gpu, free);
  for (size_t i = 0; i < gpus.size(); ++i) gpus[i].layers = counts[i];
  device.parts.back().layers = 0;
}

Result<void> add_processor(const kernels::CpuOptions& cpu, Device& device) {
  CAIRN_TRY(auto backend, kernels::make_cpu_backend(cpu));
  device.parts.insert(device.parts.begin(), DevicePart{std::move(backend), false, 0});
  return {};
}

/// Puts as many layers as fit on the device's GPUs, or on fewer of them, and the rest on the processor. Errors: those
/// of `fits` with one layer on one GPU.
Result<int32_t> fit_layers(Device& device, const LayerBytes& bytes, const kernels::CpuOptions& cpu, const Fits& fits) {
  const auto layers = static_cast<int32_t>(bytes.layers.size());
  CAIRN_TRY_VOID(add_processor(cpu, device));
  while (gpus_of(device) >= layers) device.parts.pop_back();  // each part has one
  const auto fit = [&](int32_t on_gpu) {
    divide(bytes, on_gpu, device);
    return fits(device);
  };
  auto least = fit(gpus_of(device));
  while (!least && gpus_of(device) > 1) {
    device.parts.pop_back();
    least = fit(gpus_of(device));
  }
  if (!least) return std::unexpected(std::move(least).error());
  int32_t most = gpus_of(device);
  for (int32_t beyond = layers; beyond - most > 1;) {
    const int32_t middle = most + (beyond - most) / 2;
    (fit(middle) ? most : beyond) = middle;
  }
  CAIRN_TRY([[maybe_unused]] const bool whole, fit(most));
  return most;
}

/// Back to the GPUs on which the layers fitted.
Result<void> without_last(const LayerBytes& bytes, int32_t on_gpu, const Fits& fits, Device& device) {
  device.parts.pop_back();
  divide(bytes, on_gpu, device);
  CAIRN_TRY([[maybe_unused]] const bool whole, fits(device));
  return {};
}

/// Puts so many layers on as few GPUs as they fit on with whole contexts, or else on all. With an error `device` has
/// all that were tried.
Result<void> on_gpus(const LayerBytes& bytes, int32_t on_gpu, const Fits& fits, Device& device) {
  CAIRN_TRY(const int32_t there, kernels::cuda_device_count());
  std::optional<Error> error;  // the first one: others say what comes of dividing
  bool tight = false;          // what is in `device` fits, with shorter contexts
  for (int32_t number = 0; number < there && gpus_of(device) < std::min(kGpusMax, on_gpu); ++number) {
    auto backend = kernels::make_cuda_backend({.device = number});
    if (!backend) {
      if (there > 1) log_info("gpu: device {} is not used: {}", number, backend.error().text());
      if (!error) error = std::move(backend).error();
      continue;
    }
    if (gpus_of(device) == 0) error.reset();
    device.parts.push_back({std::move(*backend), true, 0});
    divide(bytes, on_gpu, device);
    auto fit = fits(device);
    if (fit && *fit) return {};
    if (!fit && tight) return without_last(bytes, on_gpu, fits, device);
    tight = fit.has_value();
    if (!fit && !error) error = fit.error();
    if (!fit && fit.error().code != Code::kOutOfMemory) break;
  }
  if (tight) return {};
  CAIRN_CHECK(error.has_value());
  return std::unexpected(*std::move(error));
}

/// `wanted` of the model's layers, kGpuLayersAuto or kGpuLayersAll.
Result<Device> choose_gpus(const gguf::Reader& file, int32_t wanted, const kernels::CpuOptions& cpu, const Fits& fits) {
  CAIRN_TRY(const LayerBytes bytes, layer_bytes(file));
  const auto layers = static_cast<int32_t>(bytes.layers.size());
  const bool automatic = wanted == kGpuLayersAuto;
  Device device;
  if (!automatic && wanted < layers) CAIRN_TRY_VOID(add_processor(cpu, device));
  auto done = on_gpus(bytes, automatic ? layers : std::min(wanted, layers), fits, device);
  if (done) return device;
  const bool short_of_memory = done.error().code == Code::kOutOfMemory && !device.parts.empty();
  if (!automatic || !short_of_memory || layers < 2) {
    return std::unexpected(std::move(done).error());
  }
  const auto most = fit_layers(device, bytes, cpu, fits);
  if (!most) return std::unexpected(std::move(done).error());
  log_info("gpu: {} of {} layers: {}", *most, layers, done.error().text());
  return device;
}

}  // namespace

std::vector<model::PipelineStage> Device::stages() const {
  std::vector<model::PipelineStage> stages;
  for (const DevicePart& part : parts) stages.push_back({part.backend.get(), part.layers});
  return stages;
}

std::vector<kernels::DeviceMemory*> Device::memories() const {
  std::vector<kernels::DeviceMemory*> memories;
  for (const DevicePart& part : parts) memories.push_back(part.backend.get());
  return memories;
}

std::string Device::text() const {
  std::string text = backend().description();
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    text += fmt::format("{}{} for {} layers", i == 0 ? "; before it " : ", ", parts[i].backend->description(),
                        parts[i].layers);
  }
  return text;
}

Result<Device> choose_device(const gguf::Reader& file, const DeviceRequest& request, const Fits& fits) {
  const bool automatic = request.gpu_layers == kGpuLayersAuto;
  if (request.gpu_layers != 0 && (kernels::built_with_cuda() || !automatic)) {
    auto device = choose_gpus(file, request.gpu_layers, request.cpu, fits);
    if (device || !automatic) return device;
    log_info("gpu: not used: {}", device.error().text());
  }
  Device device;
  CAIRN_TRY_VOID(add_processor(request.cpu, device));
  CAIRN_TRY([[maybe_unused]] const bool whole, fits(device));
  return device;
}

}  // namespace cairn::loader
