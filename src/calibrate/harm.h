/// How much it harms a model to give one of its tensors fewer bits: what `cairn quantize --fit` chooses types by.
///
/// Each tensor by itself is rounded to Q4_0, and the model's predictions on a text are compared with those of the model
/// as it is: the mean Kullback-Leibler divergence. For small errors it grows with their square, so that another type
/// does harm in proportion to the square of its error, each column weighted by its importance. Harms of several tensors
/// add up as far as their errors are independent.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/system/thread_pool.h"
#include "calibrate/allocation.h"
#include "convert/importance.h"
#include "gguf/reader.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::calibrate {

/// The type that tensors are rounded to when their harm is measured.
inline constexpr TensorType kProbeType = TensorType::kQ4_0;

struct TensorHarm {
  size_t tensor = 0;      ///< its number in the file
  double divergence = 0;  ///< mean KL divergence with the tensor in kProbeType, in nats
  std::vector<TypeOption> options;
};

struct HarmOptions {
  int32_t windows = 4;         ///< pieces of the text, from all over it
  int32_t window_tokens = 96;  ///< of which the first positions do not count
  TokenId first = kNoToken;    ///< replaces each window's first token; kNoToken: nothing does
  std::function<void(int64_t done, int64_t total)> progress{};  ///< in tensors
};

/// Every tensor whose type a mix would change; the others have one option, what they are. Each has all types that its
/// rows can have, with importance as the encoders take it. Errors: the model's and the backend's; kInvalidArgument: the
/// text is too short.
Result<std::vector<TensorHarm>> measure_harm(const gguf::Reader& file, kernels::Backend& backend, ThreadPool& threads,
                                             const convert::ImportanceMatrix& importance,
                                             std::span<const TokenId> tokens, const HarmOptions& options);

}  // namespace cairn::calibrate
