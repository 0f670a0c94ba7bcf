#include "registry/device.h"

#include <utility>

#include "base/log.h"

namespace cairn {
namespace {

Result<void> check_layers(const gguf::Reader& file, int32_t wanted) {
  if (wanted == 0 || wanted == kGpuLayersAuto || wanted == kGpuLayersAll) return {};
  CAIRN_TRY(const std::string_view architecture, file.metadata().string("general.architecture"));
  CAIRN_TRY(const int64_t layers, file.metadata().integer(fmt::format("{}.block_count", architecture)));
  if (wanted >= layers) return {};
  return fail_at("--gpu-layers", Code::kUnsupported,
                 "{} of {} layers on the GPU: a model cannot be split between GPU and CPU yet; use all, auto or 0",
                 wanted, layers);
}

Result<Device> on_gpu(const std::function<Result<void>(const Device&)>& fits) {
  CAIRN_TRY(auto backend, make_cuda_backend({}));
  Device device{std::move(backend), true};
  CAIRN_TRY_VOID(fits(device));
  return device;
}

}  // namespace

Result<Device> choose_device(const gguf::Reader& file, const DeviceWishes& wishes,
                             const std::function<Result<void>(const Device&)>& fits) {
  CAIRN_TRY_VOID(check_layers(file, wishes.gpu_layers));
  const bool automatic = wishes.gpu_layers == kGpuLayersAuto;
  if (wishes.gpu_layers != 0 && (built_with_cuda() || !automatic)) {
    auto device = on_gpu(fits);
    if (device || !automatic) return device;
    log_info("gpu: not used: {}", device.error().text());
  }
  CAIRN_TRY(auto backend, make_cpu_backend(wishes.cpu));
  Device device{std::move(backend), false};
  CAIRN_TRY_VOID(fits(device));
  return device;
}

}  // namespace cairn
