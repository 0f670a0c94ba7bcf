/// From tensor names to weights a backend can use: each is found, checked for shape and type, and loaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"
#include "kernels/low_rank.h"
#include "kernels/weight_store.h"
#include "model/weights/linear.h"
#include "model/weights/lora.h"
#include "model/weights/pack_cache.h"
#include "model/weights/row_table.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

class WantedTensors;
class WeightNames;

/// A matrix whose rows are looked up.
struct LookupTable {
  kernels::Weight weight;
  std::vector<kernels::LowRank> adapters;  ///< of a table: see kernels::look_up

  /// out[i] = row ids[i], as the step's row i takes the adapters, times `scale`; out [ids.size(), cols].
  void look_up(kernels::Backend& backend, std::span<const TokenId> ids, float scale, float* out) const {
    kernels::look_up(backend, weight, adapters, ids, scale, out);
  }
};

/// Rows of a matrix that holds several: q, k and v, or gate and up.
struct RowRange {
  int64_t begin = 0;
  int64_t rows = 0;
};

/// A matrix [heads * (keys + values), cols] that holds two for each head: what makes its keys, then its values.
struct JointShape {
  int64_t heads = 0;
  int64_t keys = 0;
  int64_t values = 0;
  int64_t cols = 0;
};

/// Errors of all operations: kCorruptFile (missing, wrong shape: both named), kUnsupported (type), the backend's own.
class WeightLoader {
 public:
  struct Options {
    bool in_place = false;                         ///< HostMatrix's
    bool warm = false;                             ///< ModelOptions::warm_weights
    PackCache* pack_cache = nullptr;               ///< ModelOptions'
    std::atomic<int64_t>* loaded_bytes = nullptr;  ///< ModelOptions'
    WeightNames* weight_names = nullptr;           ///< ModelOptions'
    bool counts_only = false;  ///< nothing is read or allocated: what is bound has shapes, but no data
    std::span<const LoraAdapter> adapters = {};
    int64_t adapter_rows = 0;  ///< of a step with adapters at most
    int64_t experts_used = 1;  ///< that each row chooses in experts() and expert_rows()
    /// Each tensor is noted here instead of being looked for in the file, which answers has() alone. With counts_only.
    WantedTensors* wanted = nullptr;
  };
  /// All outlive what is bound.
  WeightLoader(const gguf::Reader& file, kernels::Backend& backend, const Options& options)
      : file_(file), backend_(backend), options_(options) {}

  /// The same for another file, without copies kept in files.
  WeightLoader for_file(const gguf::Reader& file) const {
    Options options = options_;
    options.pack_cache = nullptr;
    options.adapters = {};
    return WeightLoader(file, backend_, options);
  }

  const gguf::Reader& file() const { return file_; }
  bool has(std::string_view tensor) const { return file_.find_tensor(tensor) != nullptr; }
  /// `name`.weight [rows, cols], and `name`.bias [rows] if there is one.
  Result<Linear> linear(std::string_view name, int64_t rows, int64_t cols);
  /// The same where `name`.scale means something else than a factor of products.
  Result<Linear> linear_without_scale(std::string_view name, int64_t rows, int64_t cols);
  /// Some rows of `name`.weight [rows, cols] and of its bias.
  Result<Linear> linear_rows(std::string_view name, int64_t rows, int64_t cols, RowRange range);
  /// Several ranges of rows of `name`.weight [rows, cols], copied one behind the other. It may have no bias.
  Result<Linear> linear_picked(std::string_view name, int64_t rows, int64_t cols, std::span<const RowRange> ranges);
  /// `name`.weight [experts, rows, cols], and `name`.bias [experts, rows] if there is one.
  Result<Linear> experts(std::string_view name, int64_t experts, int64_t rows, int64_t cols);
  /// Some rows of each expert of `name`.weight [experts, rows, cols], which are copied together. It may have no bias.
  Result<Linear> expert_rows(std::string_view name, int64_t experts, int64_t rows, int64_t cols, RowRange range);
  /// The same as heads() where the file may have the experts' rows one after the other, as a plain matrix.
  Result<Linear> stacked(std::string_view name, int64_t experts, int64_t rows, int64_t cols);
  /// The same where every row of a step has a product with each of them, such as the matrices of heads.
  Result<Linear> heads(std::string_view name, int64_t heads, int64_t rows, int64_t cols);
  /// `name`.weight [rows, cols], a row for each token.
  Result<LookupTable> token_table(std::string_view name, int64_t rows, int64_t cols);
  /// `name`.weight [rows, cols], whose rows are looked up. An adapter of it is refused: kUnsupported.
  Result<kernels::Weight> lookup_table(std::string_view name, int64_t rows, int64_t cols);
  /// A tensor of one dimension, as float32, times `factor`.
  Result<kernels::Buffer> vector(std::string_view tensor, int64_t size, float factor = 1);
  /// A tensor [rows, cols], as float32.
  Result<kernels::Buffer> table(std::string_view tensor, int64_t rows, int64_t cols);
  /// A tensor [rows, cols], as float32, turned: [cols, rows].
  Result<kernels::Buffer> turned_table(std::string_view tensor, int64_t rows, int64_t cols);
  /// The same of several such tensors side by side: [cols, tensors * rows]. Of a convolution they may be [rows, 1,
  /// cols].
  Result<kernels::Buffer> turned_tables(std::span<const std::string> tensors, int64_t rows, int64_t cols);
  /// A tensor [rows, cols] of I32; empty if it is only counted.
  Result<std::vector<int32_t>> numbers(const std::string& tensor, int64_t rows, int64_t cols);
  /// A tensor of this shape, row length first, of any type, which the caller reads.
  Result<const gguf::Tensor*> find(const std::string& name, std::span<const int64_t> shape) {
    return find(name, TensorType::kF32, shape);
  }
  /// `name`.weight [rows, cols] as float32, to make other matrices from; empty if it is only counted.
  Result<std::vector<float>> values(std::string_view name, int64_t rows, int64_t cols);
  /// `name`.weight [rows, cols], which stays in the file. It does not count as memory, as it need not be there.
  Result<RowTable> row_table(std::string_view name, int64_t rows, int64_t cols);
  using Fill = std::function<void(std::span<float>)>;
  /// The same as heads() where no tensor holds `name`.weight: `fill` writes its elements.
  Result<Linear> made_heads(std::string_view name, int64_t heads, int64_t rows, int64_t cols, const Fill& fill);
  /// Adds to keys [heads, cols, keys], which use their part of `name`.weight turned, and to values [heads, values,
  /// cols] what adapters change in that tensor, which the model's file need not have.
  Result<void> add_joint_adapters(std::string_view name, const JointShape& shape, Linear& keys, Linear& values);

  /// For what is read without the loader: how many bytes it takes, and whether to read it at all.
  bool wants(int64_t bytes) {
    bytes_ += bytes;
    if (!options_.counts_only && options_.loaded_bytes != nullptr) *options_.loaded_bytes += bytes;
    return !options_.counts_only;
  }
  /// After all else: gives the adapters memory to work with. Errors: kOutOfMemory.
  Result<void> allocate_adapters();
  /// What says by how much each row takes the adapters; null if no matrix has one. Outlives this.
  std::shared_ptr<kernels::LowRankRows> adapter_rows() const {
    return choices_of_ranks_.empty() ? nullptr : std::shared_ptr<kernels::LowRankRows>(scratch_, &scratch_->rows);
  }
  /// Errors: kUnsupported (an adapter has a product for a tensor that is used in another way here, or not at all).
  Result<void> check_adapters() const;

  /// Memory that all that was bound takes, counting parts of the file where they are used in place.
  int64_t bytes() const { return bytes_; }

  /// For tensors that others read.
  void mark_used(std::string_view tensor);
  void mark_used(const WeightLoader& other);
  /// Logs the tensors that nothing asked for: a file that has some may mean more than we compute.
  void warn_of_unused() const;

 private:
  /// The shape of a matrix per expert.
  struct Shape {
    int64_t rows = 0;
    int64_t cols = 0;
    int64_t experts = 1;
    int64_t choices = 1;  ///< of experts that each row of a step has products with
  };

  /// `wanted` is the type that Options::wanted notes.
  Result<const gguf::Tensor*> find(const std::string& name, TensorType wanted, std::span<const int64_t> shape);
  Result<Linear> matrix(std::string_view name, const Shape& shape, RowRange range, bool has_scales = true);
  /// Loads a copy of `bytes`, which the caller may free after the call.
  Result<kernels::Weight> load_copy(kernels::HostMatrix host, std::span<const std::byte> bytes);
  void note_name(const kernels::Weight& weight, std::string_view tensor) const;
  Result<Linear> bind(std::string_view name, const gguf::Tensor& tensor, const Shape& shape, RowRange range,
                      bool has_scales = true);
  /// The same with the adapters' products.
  Result<Linear> bind_adapted(std::string_view name, const gguf::Tensor& tensor, const Shape& shape, RowRange range,
                              bool has_scales = true);
  /// A copy of some ranges of rows of each expert, one behind the other.
  Result<kernels::Weight> load_ranges(const gguf::Tensor& tensor, const Shape& shape, std::span<const RowRange> ranges,
                                      std::vector<float> scales = {});
  /// A matrix of float32 that `fill` writes.
  Result<kernels::Weight> load_made(const Shape& shape, const Fill& fill);
  /// Numbers of `name`.scale, one for each expert, if the file has it: NVFP4's numbers are too small to be weights
  /// themselves.
  Result<std::vector<float>> scales(std::string_view name, int64_t experts);
  Result<void> check_supported(const gguf::Tensor& tensor) const;
  static Result<void> check_decodable(const gguf::Tensor& tensor);
  static Result<std::vector<float>> decoded(const gguf::Tensor& tensor);
  Result<kernels::Buffer> floats(const gguf::Tensor& tensor, RowRange range, float factor = 1);

  // -- Adapters, adapter_weights.cpp.
  /// The adapters' products for ranges of rows of each expert of a tensor of `shape`.
  Result<std::vector<kernels::LowRank>> low_rank(std::string_view tensor, const Shape& shape,
                                                 std::span<const RowRange> ranges);
  /// What a joint matrix's adapter does to keys, which use it turned.
  Result<kernels::LowRank> turned_product(size_t adapter, const LoraAdapter::Parts& parts, const JointShape& shape);
  /// A product of adapter number `adapter`, of rank `rank`, with `choices` inputs for each row of a step.
  kernels::LowRank product_of(size_t adapter, int64_t rank, int64_t choices, kernels::Weight a, kernels::Weight b);

  const gguf::Reader& file_;
  kernels::Backend& backend_;
  const Options options_;
  std::set<const gguf::Tensor*> used_;
  std::shared_ptr<kernels::LowRankScratch> scratch_ = std::make_shared<kernels::LowRankScratch>();
  std::map<int64_t, int64_t> choices_of_ranks_;  // of adapters, and how many inputs each row of a step has at most
  int64_t low_columns_ = 0;                      // of LowRankScratch, for each row of a step
  int64_t added_columns_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace cairn::model
