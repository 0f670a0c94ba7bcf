/// From tensor names to weights a backend can use: each is found, checked for shape and type, and loaded.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"
#include "kernels/backend.h"
#include "model/weights/pack_cache.h"

namespace cairn {

/// y = W x + b. With experts, weight [experts, rows, cols] and bias [experts, rows].
struct Linear {
  Weight weight;
  Buffer bias;  ///< empty if there is none

  Projection to(float* out) const { return {&weight, bias.floats(), out}; }
};

/// Rows of a matrix that holds several: q, k and v, or gate and up.
struct RowRange {
  int64_t begin = 0;
  int64_t rows = 0;
};

/// Errors of all operations: kCorruptFile (missing, wrong shape: both named), kUnsupported (type), the backend's own.
class Binder {
 public:
  struct Options {
    bool in_place = false;            ///< HostMatrix's
    PackCache* pack_cache = nullptr;  ///< ModelOptions'
  };
  /// All outlive what is bound.
  Binder(const gguf::Reader& file, Backend& backend, const Options& options)
      : file_(file), backend_(backend), options_(options) {}

  bool has(std::string_view tensor) const { return file_.find_tensor(tensor) != nullptr; }
  /// `name`.weight [rows, cols], and `name`.bias [rows] if there is one.
  Result<Linear> linear(std::string_view name, int64_t rows, int64_t cols);
  /// Some rows of `name`.weight [rows, cols] and of its bias.
  Result<Linear> linear_rows(std::string_view name, int64_t rows, int64_t cols, RowRange range);
  /// `name`.weight [experts, rows, cols], and `name`.bias [experts, rows] if there is one.
  Result<Linear> experts(std::string_view name, int64_t experts, int64_t rows, int64_t cols);
  /// The same where the file may have the experts' rows one after the other, as a plain matrix.
  Result<Linear> stacked(std::string_view name, int64_t experts, int64_t rows, int64_t cols);
  /// A tensor of one dimension, as float32.
  Result<Buffer> vector(std::string_view tensor, int64_t size);
  /// A tensor [rows, cols], as float32.
  Result<Buffer> table(std::string_view tensor, int64_t rows, int64_t cols);
  /// `name`.weight [rows, cols] as float32, to make other matrices from.
  Result<std::vector<float>> values(std::string_view name, int64_t rows, int64_t cols);
  /// A matrix [experts, rows, cols] that no tensor holds.
  Result<Linear> made(std::span<const float> values, int64_t experts, int64_t rows, int64_t cols);

  /// For tensors that others read.
  void mark_used(std::string_view tensor);
  /// Logs the tensors that nothing asked for: a file that has some may mean more than we compute.
  void warn_of_unused() const;

 private:
  Result<const gguf::Tensor*> find(const std::string& name, std::span<const int64_t> shape);
  Result<Linear> matrix(std::string_view name, int64_t experts, int64_t rows, int64_t cols, RowRange range);
  Result<Linear> bind(std::string_view name, const gguf::Tensor& tensor, int64_t experts, int64_t rows, int64_t cols,
                      RowRange range);
  static Result<std::vector<float>> decoded(const gguf::Tensor& tensor);
  Result<Buffer> floats(const gguf::Tensor& tensor, RowRange range);

  const gguf::Reader& file_;
  Backend& backend_;
  const Options options_;
  std::set<const gguf::Tensor*> used_;
};

}  // namespace cairn
