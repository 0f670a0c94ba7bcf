#include "model/control_vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "base/system/mapped_file.h"
#include "kernels/backend.h"

namespace cairn::model {

Result<ControlVectors> ControlVectors::load(const ControlVectorOptions& options, int64_t layers, int64_t embedding,
                                            kernels::Backend& backend) {
  ControlVectors found;
  if (options.file.empty()) return found;
  CAIRN_TRY(const MappedFile file, MappedFile::open(options.file));
  const int64_t bytes = layers * embedding * static_cast<int64_t>(sizeof(float));
  if (std::ssize(file.bytes()) != bytes) {
    return fail(Code::kInvalidArgument,
                "steering file {} has {} bytes, but this model takes {}: float32 of {} layers times {}", options.file,
                file.bytes().size(), bytes, layers, embedding);
  }
  std::vector<float> values(static_cast<size_t>(layers * embedding));
  std::memcpy(values.data(), file.bytes().data(), file.bytes().size());
  const auto broken = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
  if (broken != values.end()) {
    return fail(Code::kInvalidArgument, "steering file {}: number {} of layer {} is no ordinary number", options.file,
                (broken - values.begin()) % embedding, (broken - values.begin()) / embedding);
  }
  CAIRN_TRY(found.control_vectors_, backend.allocate(bytes));
  backend.write(values.data(), bytes, found.control_vectors_.data());
  found.layers_ = static_cast<size_t>(layers);
  found.embedding_ = embedding;
  found.attention_ = options.attention;
  found.feed_forward_ = options.feed_forward;
  return found;
}

void ControlVectors::apply(kernels::Backend& backend, float scale, size_t layer, float* block, int64_t rows) const {
  if (scale == 0 || layer >= layers_) return;
  backend.steer(block, control_vectors_.floats() + static_cast<int64_t>(layer) * embedding_, scale, rows, embedding_);
}

}  // namespace cairn::model
