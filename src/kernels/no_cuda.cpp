// What stands in place of kernels/cuda in builds without it.
#include "kernels/cuda/cuda_backend.h"

namespace cairn::kernels {

namespace {

std::unexpected<Error> built_without() {
  return fail(Code::kUnsupported,
              "this cairn was built without CUDA: build it with cmake --preset cuda (docs/cuda.md)");
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& /*options*/) { return built_without(); }

Result<int> cuda_device_count() { return built_without(); }

bool built_with_cuda() { return false; }

}  // namespace cairn::kernels
