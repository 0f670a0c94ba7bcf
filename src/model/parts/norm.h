/// The norm of rows, a part of every layer: which kind it is, its weights, and its run.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "kernels/device_memory.h"

namespace cairn::kernels {
class RowOperations;
}  // namespace cairn::kernels

namespace cairn::model {

class MetadataReader;
class WeightLoader;

enum class NormKind { kRms, kLayerNorm };

/// Norms of a model are of one kind.
struct NormConfig {
  NormKind kind = NormKind::kRms;
  float epsilon = 0;
  bool biases = false;  ///< of layer norms
};

/// attention.layer_norm_rms_epsilon or attention.layer_norm_epsilon, as the kind has it; with `either` the other key
/// stands for a missing one. Error: kCorruptFile (the key is missing, or negative).
Result<float> read_norm_epsilon(const MetadataReader& keys, NormKind kind, bool either);

/// A norm that was not loaded does not exist, and is not run.
class Norm {
 public:
  Norm() = default;
  /// An RMS norm by a weight [width], or without one if that is empty.
  Norm(kernels::Buffer weight, int64_t width, float epsilon)
      : weight_(std::move(weight)), epsilon_(epsilon), width_(width) {}
  /// `name`.weight [width], and with biases `name`.bias [width]. Errors: the loader's.
  static Result<Norm> load(WeightLoader& loader, std::string_view name, int64_t width, const NormConfig& config);

  bool exists() const { return width_ > 0; }
  /// x [rows, width]; `out` may be `x`.
  void run(kernels::RowOperations& operations, const float* x, int64_t rows, float* out) const;
  /// x += scale * y, and then the same.
  void add_and_run(kernels::RowOperations& operations, float* x, const float* y, float scale, int64_t rows,
                   float* out) const;

 private:
  kernels::Buffer weight_;
  std::unique_ptr<kernels::Buffer> bias_;  // null: none
  NormKind kind_ = NormKind::kRms;
  float epsilon_ = 0;
  int64_t width_ = 0;
};

}  // namespace cairn::model
