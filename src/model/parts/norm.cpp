#include "model/parts/norm.h"

#include <fmt/format.h>

#include <string>

#include "kernels/row_operations.h"
#include "model/metadata_reader.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

// The architecture decides which kind of norm it has: files may hold the key of the other one too, or only that.
Result<float> read_norm_epsilon(const MetadataReader& keys, NormKind kind, bool either) {
  const char* key = "attention.layer_norm_rms_epsilon";
  const char* other = "attention.layer_norm_epsilon";
  keys.mark_read(key);
  if (kind == NormKind::kLayerNorm) std::swap(key, other);
  if (!either) {
    keys.mark_read(other);
  } else if (!keys.contains(key) && keys.contains(other)) {
    key = other;
  }
  CAIRN_TRY(const float epsilon, keys.number(key));
  if (epsilon >= 0) return epsilon;
  return fail(Code::kCorruptFile, "{} is {}, but it must not be negative", keys.full(key), epsilon);
}

Result<Norm> Norm::load(WeightLoader& loader, std::string_view name, int64_t width, const NormConfig& config) {
  Norm norm;
  norm.kind_ = config.kind;
  norm.epsilon_ = config.epsilon;
  norm.width_ = width;
  const std::string weight = fmt::format("{}.weight", name);
  // Falcon-H1's files have one without the ending that tensors of weights have.
  if (loader.has(name) && !loader.has(weight)) {
    CAIRN_TRY(norm.weight_, loader.vector(name, width));
    return norm;
  }
  CAIRN_TRY(norm.weight_, loader.vector(weight, width));
  if (config.biases) {
    norm.bias_ = std::make_unique<kernels::Buffer>();
    CAIRN_TRY(*norm.bias_, loader.vector(fmt::format("{}.bias", name), width));
  }
  return norm;
}

void Norm::run(kernels::RowOperations& operations, const float* x, int64_t rows, float* out) const {
  switch (kind_) {
    case NormKind::kRms:
      operations.rms_norm(x, weight_.floats(), epsilon_, rows, width_, out);
      break;
    case NormKind::kLayerNorm:
      operations.layer_norm(x, weight_.floats(), bias_ != nullptr ? bias_->floats() : nullptr, epsilon_, rows, width_,
                            out);
      break;
  }
}

void Norm::add_and_run(kernels::RowOperations& operations, float* x, const float* y, float scale, int64_t rows,
                       float* out) const {
  if (kind_ == NormKind::kRms) {
    operations.add_rms_norm(x, y, scale, weight_.floats(), epsilon_, rows, width_, out);
    return;
  }
  operations.add(x, y, rows * width_, scale);
  run(operations, x, rows, out);
}

}  // namespace cairn::model
