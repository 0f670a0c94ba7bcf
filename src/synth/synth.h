/// Writes model files with random weights, of any shape and type, for tests and benchmarks: metadata, vocabulary and
/// tensors are like those of a real file, and the model's output is noise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "synth/shape.h"
#include "synth/tensors.h"

namespace cairn::synth {

inline constexpr int kThreadsMax = 512;

struct Progress {
  std::string_view tensor;
  TensorType type;
  int64_t tensor_index;  ///< from 0
  int64_t tensors;
  int64_t bytes_done;
  int64_t bytes_total;
};

struct Options {
  std::string type = {};                  ///< type of the matrices (assign_types()); empty: the preset's
  std::vector<TypeRule> type_rules = {};  ///< applied after `type`
  uint64_t seed = 1;
  int threads = 0;  ///< 0: one per usable core
  /// Weights are zeros that take no space on disk (gguf::Writer::skip_rest), for uses that only need shapes.
  bool hollow = false;
  /// Called on the caller's thread after each part of a tensor is written; may be empty.
  std::function<void(const Progress&)> progress = {};
};

/// The contents of a file to be written.
struct Plan {
  Shape shape;  ///< complete
  std::vector<TensorPlan> tensors;
  int64_t bytes = 0;  ///< bytes of all tensors
  int64_t elements = 0;
  int64_t misfits = 0;  ///< number of matrices whose rows did not fit the wanted type
};

/// Errors: kInvalidArgument, with the key, tensor or flag that is not consistent with the others.
Result<Plan> plan(Shape shape, const Options& options);

/// Writes the file, which appears under its name only once it is complete. The same plan and seed give the same bytes
/// for any number of threads, and a tensor's bytes depend on the seed, its name, type and shape alone. Memory: some
/// tens of MiB and the vocabulary. Errors: those of gguf::Writer; kIo if the file system has too little space.
Result<void> write(const Plan& plan, const Options& options, const std::filesystem::path& path);

}  // namespace cairn::synth
