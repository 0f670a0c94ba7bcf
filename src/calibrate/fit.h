/// Types for every tensor of a model, so that it takes at most so many bytes: the whole of `cairn quantize --fit`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/system/thread_pool.h"
#include "calibrate/harm.h"
#include "calibrate/reading.h"
#include "convert/importance.h"
#include "convert/quantize_mix.h"
#include "gguf/reader.h"

namespace cairn::calibrate {

/// The importance matrix of a model on one device, without texts' names. Errors: those of loading and running it.
Result<convert::ImportanceMatrix> collect_importance(const gguf::Reader& file,
                                                     std::shared_ptr<kernels::Backend> backend,
                                                     std::span<const TokenId> tokens, const ReadingOptions& options);

/// Tensors of one kind ("ffn_down" in all layers) and what they got.
struct FittedGroup {
  std::string kind;
  int64_t tensors = 0;
  int64_t bytes = 0;
  double probe_harm = 0;                                ///< divergence if each were in kProbeType
  double harm = 0;                                      ///< in the chosen types, by what was measured
  std::vector<std::pair<TensorType, int64_t>> types{};  ///< and how many tensors have each, most bits first
};

struct FitPlan {
  std::vector<TensorType> types;                                 ///< of every tensor, in the file's order
  int64_t bytes = 0;                                             ///< of all tensors
  double harm = 0;                                               ///< of all tensors
  std::vector<FittedGroup> groups{};                             ///< those that were quantised, most harm first
  convert::QuantizeMix nearest = convert::QuantizeMix::kQ4_K_M;  ///< whose main type most weights have
};

/// Errors: those of allocate(). `tensors` are the file's.
Result<FitPlan> fit(std::span<const gguf::Tensor> tensors, std::span<const TensorHarm> harms, int64_t bytes);

}  // namespace cairn::calibrate
