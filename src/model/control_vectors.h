/// ControlVectors that are taken out of what blocks write, layer by layer: y -= scale * d * (d . y).
///
/// Source of the file's form: antirez/ds4, --dir-steering-file: float32 [layers, embedding], nothing else.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "kernels/device_memory.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

struct ControlVectorOptions {
  std::string file;        ///< empty: none
  float attention = 0;     ///< scale after attention
  float feed_forward = 1;  ///< scale after the feed-forward
};

class ControlVectors {
 public:
  /// None.
  ControlVectors() = default;
  /// Errors: kNotFound, kIo, kInvalidArgument (a file of another size: both are named; numbers that are none).
  static Result<ControlVectors> load(const ControlVectorOptions& options, int64_t layers, int64_t embedding,
                                     kernels::Backend& backend);

  /// Layers beyond those of the file have none.
  void after_attention(kernels::Backend& backend, size_t layer, float* block, int64_t rows) const {
    apply(backend, attention_, layer, block, rows);
  }
  void after_feed_forward(kernels::Backend& backend, size_t layer, float* block, int64_t rows) const {
    apply(backend, feed_forward_, layer, block, rows);
  }

 private:
  void apply(kernels::Backend& backend, float scale, size_t layer, float* block, int64_t rows) const;

  kernels::Buffer control_vectors_;  // [layers, embedding]; empty: none
  size_t layers_ = 0;
  int64_t embedding_ = 0;
  float attention_ = 0;
  float feed_forward_ = 0;
};

}  // namespace cairn::model
