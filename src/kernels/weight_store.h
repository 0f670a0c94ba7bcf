/// Weights on their way from a file to a device. Part of the interface of kernels/backend.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/tensor_type.h"
#include "kernels/device_memory.h"

namespace cairn::kernels {

/// A weight matrix as a file has it: [experts, rows, cols], rows of blocks of `type`, `experts` 1 for plain ones. y = W
/// x maps cols to rows. The bytes outlive the backend's use of them.
struct HostMatrix {
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t experts = 1;
  const std::byte* data = nullptr;
  /// No copy larger than the file's bytes, for want of memory: products may be slow.
  bool in_place = false;
  /// The copy (`Weight::memory`) that an earlier `load` of this matrix made by the same `packed_format_id`, or empty.
  /// Used as it is, so it outlives the weight; ignored if it has not the right size or is not aligned to 64 bytes.
  std::span<const std::byte> copy = {};
  /// What each expert's products are multiplied by, before a bias is added; empty: nothing.
  std::vector<float> scales = {};
};

/// A weight matrix made ready by `WeightStore::load`; what `data` points to is the backend's own business.
struct Weight {
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t experts = 1;
  const void* data = nullptr;
  std::shared_ptr<Buffer> memory;  ///< what `data` points to, if the backend made a copy; copies share it
  bool panels = false;             ///< `data` are panels (kernels/cpu/packed/panel.h), not the file's rows
  std::vector<float> scales = {};  ///< as the HostMatrix's
};

/// Called while a model is loaded; may allocate.
class WeightStore {
 public:
  virtual ~WeightStore() = default;
  /// Whether matrix products work on this type.
  virtual bool supports(TensorType type) const = 0;
  /// What copies that `load` makes look like: changes whenever they do. Empty: they are not for keeping.
  virtual std::string packed_format_id() const = 0;
  /// Bytes of memory that `load` will take, counting `matrix.data` where it is used in place.
  virtual int64_t load_bytes(const HostMatrix& matrix) const = 0;
  /// The weight refers to `matrix.data` or has a copy (`memory`), after which the file's bytes are not read again.
  /// Errors: kUnsupported (type), kOutOfMemory.
  virtual Result<Weight> load(const HostMatrix& matrix) = 0;
};

}  // namespace cairn::kernels
