/// A device and what it offers to model/: memory, weights and operations. kernels/cpu/cpu_backend.h and
/// kernels/cuda/cuda_backend.h make one.
///
/// What `allocate` and `load` give is the device's memory: others read and write it through DeviceMemory only.
///
/// All activations are float32 and row-major, [rows, columns], in memory of the backend (`allocate`). A row's result
/// never depends on the other rows of a call nor on the number of threads: reductions have a fixed order
/// (docs/architecture.md, "Same bytes"). Arguments are checked by the caller (model/ at load); a backend only
/// CAIRN_DCHECKs. Operations of one backend are called from one thread at a time, run in call order, and allocate
/// nothing, except where said.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "kernels/attention_operations.h"         // IWYU pragma: export
#include "kernels/compressor_operations.h"        // IWYU pragma: export
#include "kernels/deepseek41_operations.h"        // IWYU pragma: export
#include "kernels/device_memory.h"                // IWYU pragma: export
#include "kernels/hyper_connection_operations.h"  // IWYU pragma: export
#include "kernels/matmul_operations.h"            // IWYU pragma: export
#include "kernels/mla_operations.h"               // IWYU pragma: export
#include "kernels/recurrent_operations.h"         // IWYU pragma: export
#include "kernels/row_operations.h"               // IWYU pragma: export
#include "kernels/sampler_operations.h"           // IWYU pragma: export
#include "kernels/weight_store.h"                 // IWYU pragma: export
#include "kernels/workspace_sizes.h"              // IWYU pragma: export

namespace cairn::kernels {

class Backend : public DeviceMemory,
                public WeightStore,
                public MatmulOperations,
                public RowOperations,
                public AttentionOperations {
 public:
  /// For logs: "cpu avx2, 2 threads".
  virtual std::string description() const = 0;

  // -- At load. These may allocate.
  /// Working memory for calls of these sizes; what is larger already stays. Errors: kOutOfMemory.
  virtual Result<void> reserve(const WorkspaceSizes& sizes) = 0;
  /// Bytes that the first `reserve` takes.
  virtual int64_t workspace_bytes(const WorkspaceSizes& sizes) const = 0;

  // -- What not every device or model has.
  /// Null: rows of logits are read, and sampled from elsewhere.
  virtual SamplerOperations* sampler() { return nullptr; }
  /// Null: models that need them do not run here.
  virtual MlaOperations* mla() { return nullptr; }
  virtual HyperConnectionOperations* hyper_connections() { return nullptr; }
  virtual CompressorOperations* compressor() { return nullptr; }
  virtual RecurrentOperations* recurrent() { return nullptr; }
  virtual Deepseek41Operations* deepseek41() { return nullptr; }

  /// A step of a model begins, like those before it: operations from here to the next read(), copy() or finish() may be
  /// begun together.
  virtual void begin_step() {}
};

}  // namespace cairn::kernels
