#include "kernels/cuda/runtime/device.h"

#include <utility>

#include "kernels/cuda/runtime/probe.h"

namespace cairn::kernels::cuda {
namespace {

constexpr int kCapabilityMajorMin = 8;

// The text of a CUDA version, which is 13000 for 13.0.
std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

// Without a driver, with an old one or without a GPU the first call of the runtime fails; each case has its own remedy.
Result<int> count_devices() {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) {
    return fail(
        Code::kNotFound,
        "there is no NVIDIA driver: install one for CUDA {} or later (nvidia-smi shows it); --gpu-layers 0 runs "
        "models on the CPU",
        version_text(CUDART_VERSION));
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error == cudaErrorInsufficientDriver) {
    return fail(Code::kNotFound,
                "the NVIDIA driver is too old: it is for CUDA {}, but this cairn needs {}; install a newer driver, or "
                "build cairn with the toolkit of that version",
                version_text(driver), version_text(CUDART_VERSION));
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    return fail(Code::kNotFound,
                "there is an NVIDIA driver, but no CUDA device: see what nvidia-smi lists, and whether "
                "CUDA_VISIBLE_DEVICES hides it");
  }
  if (error != cudaSuccess) return fail(Code::kNotFound, "no CUDA device can be used: {}", error_text(error));
  return count;
}

Result<std::unique_ptr<Stream>> open_device(int device) {
  CAIRN_TRY(const int count, count_devices());
  if (device < 0 || device >= count)
    return fail(Code::kNotFound, "there is no CUDA device {}: there are {}, counted from 0", device, count);
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess)
    return fail(Code::kNotFound, "CUDA device {} does not say what it is: {}", device, error_text(error));
  const std::string name = count > 1 ? fmt::format("{} #{}", properties.name, device) : properties.name;
  if (properties.major < kCapabilityMajorMin) {
    return fail(Code::kUnsupported, "{} has compute capability {}.{}, but the kernels need {}.0 or later", name,
                properties.major, properties.minor, kCapabilityMajorMin);
  }
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess)
    return fail(Code::kNotFound, "{} cannot be used: {}", name, error_text(error));
  CAIRN_TRY(auto stream, Stream::create(device, name));
  cudaError_t error = probe(stream->launches());
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream->get());
  if (error == cudaSuccess) return stream;
  cudaGetLastError();
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidPtx ||
      error == cudaErrorUnsupportedPtxVersion) {
    return fail(Code::kUnsupported,
                "this cairn was built without kernels for {} (compute capability {}.{}): build it with "
                "-DCMAKE_CUDA_ARCHITECTURES={}{}",
                name, properties.major, properties.minor, properties.major, properties.minor);
  }
  return fail(Code::kNotFound, "{} cannot run kernels: {}", name, error_text(error));
}

}  // namespace cairn::kernels::cuda
