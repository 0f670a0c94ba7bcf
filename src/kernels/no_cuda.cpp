// In place of kernels/cuda, in builds without it.
#include "kernels/backend.h"

namespace cairn {

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& /*options*/) {
  return fail(Code::kUnsupported,
              "this cairn was built without CUDA: build it with cmake --preset cuda (docs/cuda.md)");
}

bool built_with_cuda() { return false; }

}  // namespace cairn
