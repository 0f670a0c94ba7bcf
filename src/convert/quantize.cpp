#include "convert/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <utility>

#include "base/system/machine.h"
#include "base/system/thread_pool.h"
#include "convert/contents.h"
#include "convert/split_output.h"
#include "gguf/writer.h"
#include "quant/codec.h"

namespace cairn::convert {
namespace {

// general.quantization_version of the block formats that quant/ writes.
constexpr int64_t kQuantizationVersion = 2;

// Elements that one thread converts at a time: a multiple of every block, small enough for its cache.
constexpr int64_t kPieceElements = 16'384;
// Elements between two writes: bounds memory (F32 output: 32 MiB) and keeps threads busy.
constexpr int64_t kSlabElements = 512 * kPieceElements;

void copy_metadata(const gguf::Metadata& metadata, const QuantizeOptions& options, gguf::Writer& writer) {
  using gguf::ValueType;
  for (const auto& [key, value] : metadata.values()) {
    if (!is_split_key(key)) writer.set(key, value);
  }
  if (options.mix == QuantizeMix::kCopy && options.chosen.empty()) return;
  writer.set_integer("general.quantization_version", ValueType::kU32, kQuantizationVersion);
  if (const auto id = file_type_id(quantize_mix_info(options.mix).name)) {
    writer.set_integer("general.file_type", ValueType::kU32, *id);
  }
  if (options.importance == nullptr) return;
  const ImportanceMatrix& importance = *options.importance;
  writer.set("quantize.imatrix.file", options.importance_file);
  if (!importance.datasets.empty()) writer.set("quantize.imatrix.dataset", importance.datasets.front());
  writer.set_integer("quantize.imatrix.entries_count", ValueType::kU32, std::ssize(importance.entries));
  writer.set_integer("quantize.imatrix.chunks_count", ValueType::kU32, importance.chunks);
}

// Types of which an encoder needs to know which columns matter.
bool needs_importance(TensorType type) {
  return type == TensorType::kIQ1_S || type == TensorType::kIQ1_M || type == TensorType::kIQ2_XXS ||
         type == TensorType::kIQ2_XS;
}

// Types whose encoders take importance into account.
bool uses_importance(TensorType type) {
  return type != TensorType::kF32 && type != TensorType::kF16 && type != TensorType::kBF16;
}

// Converts whole rows of one tensor.
class TensorConverter {
 public:
  /// `importance` [matrices, columns], or empty.
  TensorConverter(const gguf::Tensor& tensor, TensorType to, std::span<const float> importance, ThreadPool& pool,
                  std::vector<std::vector<float>>& scratch)
      : tensor_(tensor),
        to_(to),
        importance_(importance),
        limit_(quant::encodable_max(to)),
        rows_of_matrix_(tensor.shape.size() > 1 ? tensor.shape[1] : 1),
        pool_(pool),
        scratch_(scratch) {}

  // Rows [begin, end) into `out`, which is resized to their bytes.
  Result<void> convert(int64_t begin, int64_t end, std::vector<std::byte>& out) {
    out.resize(static_cast<size_t>((end - begin) * row_bytes(to_, columns())));
    std::atomic<int64_t> first_bad{kNone};
    const int64_t rows = std::max<int64_t>(1, kPieceElements / columns());
    pool_.parallel_for(end - begin, rows, [&](int64_t from, int64_t until, int member) {
      for (int64_t row = begin + from; row < begin + until; ++row) {
        const int64_t bad = convert_row(row, begin, scratch_[member], out);
        int64_t known = first_bad.load(std::memory_order_relaxed);
        while (bad < known && !first_bad.compare_exchange_weak(known, bad, std::memory_order_relaxed)) {
        }
      }
    });
    const int64_t bad = first_bad.load(std::memory_order_relaxed);
    if (bad == kNone) return {};
    return refuse(bad);
  }

 private:
  static constexpr int64_t kNone = INT64_MAX;

  int64_t columns() const { return tensor_.shape[0]; }

  std::span<const std::byte> row_of(int64_t row) const {
    const auto bytes = static_cast<size_t>(row_bytes(tensor_.type, columns()));
    return tensor_.bytes.subspan(static_cast<size_t>(row) * bytes, bytes);
  }

  // Returns the first element of the tensor that cannot be encoded, or kNone.
  int64_t convert_row(int64_t row, int64_t first, std::vector<float>& values, std::vector<std::byte>& out) const {
    values.resize(static_cast<size_t>(columns()));
    quant::decode_row(tensor_.type, row_of(row), values);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!(std::fabs(values[i]) <= limit_)) return row * columns() + static_cast<int64_t>(i);
    }
    const auto bytes = static_cast<size_t>(row_bytes(to_, columns()));
    const auto to = std::span(out).subspan(static_cast<size_t>(row - first) * bytes, bytes);
    if (to_ == tensor_.type) {
      std::ranges::copy(row_of(row), to.begin());
      return kNone;
    }
    const auto matrix = static_cast<size_t>(row / rows_of_matrix_ * columns());
    const auto importance =
        importance_.empty() ? importance_ : importance_.subspan(matrix, static_cast<size_t>(columns()));
    quant::encode_row(to_, values, importance, to);
    return kNone;
  }

  std::unexpected<Error> refuse(int64_t element) const {
    const int64_t row = element / columns(), column = element % columns();
    std::vector<float> values(static_cast<size_t>(columns()));
    quant::decode_row(tensor_.type, row_of(row), values);
    const float value = values[static_cast<size_t>(column)];
    std::string at = fmt::format("tensor {}, row {}, column {}", tensor_.name, row, column);
    if (!std::isfinite(value)) {
      return fail_at(std::move(at), Code::kCorruptFile, "the weight is {}: the input is damaged or badly converted",
                     value);
    }
    return fail_at(std::move(at), Code::kUnsupported,
                   "the weight {} is larger than {} can hold ({}); choose F32, or BF16 if that is enough", value,
                   tensor_type_name(to_), limit_);
  }

  const gguf::Tensor& tensor_;
  TensorType to_;
  std::span<const float> importance_;
  float limit_;
  int64_t rows_of_matrix_;
  ThreadPool& pool_;
  std::vector<std::vector<float>>& scratch_;
};

// The types of all tensors, and what is to be said of them.
struct Plan {
  std::vector<TensorType> types;
  QuantizeReport report;
};

Result<void> add_tensor(const gguf::Tensor& tensor, TensorType to, const QuantizeOptions& options,
                        QuantizeReport& report) {
  const int64_t bytes = row_bytes(to, tensor.elements());
  ++report.tensors;
  report.elements += tensor.elements();
  report.bytes_in += std::ssize(tensor.bytes);
  report.bytes_out += bytes;
  TypeSize& size = report.sizes[to];
  ++size.tensors;
  size.elements += tensor.elements();
  size.bytes += bytes;
  if (to == tensor.type || !uses_importance(to)) return {};
  ColumnImportance importance;
  if (options.importance != nullptr) {
    CAIRN_TRY(importance, options.importance->of(tensor));
  }
  if (importance.means.empty()) {
    if (options.importance == nullptr && needs_importance(to)) {
      return fail_at(fmt::format("tensor {}", tensor.name), Code::kInvalidArgument,
                     "{} without an importance matrix makes a model of no use; make one with cairn imatrix, and give "
                     "it with --imatrix",
                     tensor_type_name(to));
    }
    if (options.importance != nullptr) report.without_importance.emplace_back(tensor.name);
  } else if (!importance.unreached.empty()) {
    report.unreached.push_back(
        fmt::format("{}: {} of {} experts", tensor.name, importance.unreached.size(), tensor.shape[2]));
  }
  return {};
}

Result<Plan> make_plan(const gguf::Reader& file, const QuantizeOptions& options) {
  Plan plan;
  const QuantizeMixInfo& mix = quantize_mix_info(options.mix);
  if (!options.chosen.empty()) {
    plan.types = options.chosen;
  } else {
    if (mix.needs_importance && options.importance == nullptr) {
      return fail(Code::kInvalidArgument,
                  "{} without an importance matrix makes a model of no use; make one with cairn imatrix, and give it "
                  "with --imatrix",
                  mix.name);
    }
    TypeRequest request = options.types;
    request.mix = options.mix;
    request.has_importance = options.importance != nullptr;
    CAIRN_TRY(TypePlan types, plan_types(file.tensors(), ModelTraits::of(file.metadata()), request));
    plan.types = std::move(types.types);
    plan.report.fallbacks = types.fallbacks;
  }
  for (size_t i = 0; i < plan.types.size(); ++i) {
    CAIRN_TRY_VOID(add_tensor(file.tensors()[i], plan.types[i], options, plan.report));
  }
  return plan;
}

// State of quantize_file while it converts the tensors.
class Job {
 public:
  Job(const gguf::Reader& file, const QuantizeOptions& options, Plan plan, int threads, SplitOutput& output)
      : file_(file),
        options_(options),
        plan_(std::move(plan)),
        pool_(threads),
        scratch_(static_cast<size_t>(threads)),
        output_(output) {}

  Result<QuantizeReport> run() {
    for (size_t i = 0; i < plan_.types.size(); ++i) CAIRN_TRY_VOID(write_tensor(i));
    CAIRN_TRY_VOID(output_.finish());
    return std::move(plan_.report);
  }

 private:
  Result<void> write_tensor(size_t index) {
    const gguf::Tensor& tensor = file_.tensors()[index];
    const TensorType to = plan_.types[index];
    gguf::Writer& writer = output_.of(index);
    // Its type is kept, and its values are not checked.
    if (!quant::can_decode(tensor.type) || (options_.mix == QuantizeMix::kCopy && to == tensor.type)) {
      CAIRN_TRY_VOID(writer.write(tensor.bytes));
      notify(index, std::ssize(tensor.bytes));
      return {};
    }
    ColumnImportance importance;
    if (options_.importance != nullptr && uses_importance(to)) {
      CAIRN_TRY(importance, options_.importance->of(tensor));
    }
    TensorConverter converter(tensor, to, importance.means, pool_, scratch_);
    const int64_t rows = tensor.elements() / tensor.shape[0];
    const int64_t at_once = std::max<int64_t>(1, kSlabElements / tensor.shape[0]);
    for (int64_t begin = 0; begin < rows; begin += at_once) {
      const int64_t end = std::min(begin + at_once, rows);
      CAIRN_TRY_VOID(converter.convert(begin, end, slab_));
      CAIRN_TRY_VOID(writer.write(slab_));
      notify(index, (end - begin) * row_bytes(tensor.type, tensor.shape[0]));
    }
    return {};
  }

  void notify(size_t index, int64_t bytes) {
    bytes_done_ += bytes;
    if (!options_.progress) return;
    const gguf::Tensor& tensor = file_.tensors()[index];
    options_.progress({tensor.name, tensor.type, plan_.types[index], static_cast<int64_t>(index),
                       static_cast<int64_t>(file_.tensors().size()), bytes_done_, plan_.report.bytes_in});
  }

  const gguf::Reader& file_;
  const QuantizeOptions& options_;
  Plan plan_;
  ThreadPool pool_;
  std::vector<std::vector<float>> scratch_;  // one for each member of the pool
  std::vector<std::byte> slab_;
  SplitOutput& output_;
  int64_t bytes_done_ = 0;
};

}  // namespace

double QuantizeReport::bits_per_weight() const {
  return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes_out) / static_cast<double>(elements);
}

Result<QuantizeReport> plan_quantize(const gguf::Reader& file, const QuantizeOptions& options) {
  CAIRN_TRY(Plan plan, make_plan(file, options));
  return std::move(plan.report);
}

Result<QuantizeReport> quantize_file(const std::filesystem::path& in, const std::filesystem::path& out,
                                     const QuantizeOptions& options) {
  if (options.threads < 0 || options.threads > kQuantizeThreadsMax) {
    return fail(Code::kInvalidArgument, "{} threads were asked for; give 1 to {}, or 0 for one per core",
                options.threads, kQuantizeThreadsMax);
  }
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(in));
  CAIRN_TRY(Plan plan, make_plan(file, options));
  std::vector<size_t> first = {0};  // tensors of each file
  if (options.keep_split) {
    CAIRN_TRY(first, parts_of_file(in, file));
  } else if (options.split_bytes_max > 0) {
    first = parts_of_size(file.tensors(), plan.types, options.split_bytes_max);
  }
  plan.report.files = std::ssize(first);
  for (uint32_t part = 0; part < first.size(); ++part) {
    CAIRN_TRY_VOID(check_output(in, SplitOutput::path_of(out, part, static_cast<uint32_t>(first.size()))));
  }
  CAIRN_TRY(SplitOutput output, SplitOutput::create(out, file.tensors(), plan.types, std::move(first)));
  copy_metadata(file.metadata(), options, output.first());
  const int threads = options.threads == 0 ? usable_cores() : options.threads;
  return Job(file, options, std::move(plan), threads, output).run();
}

}  // namespace cairn::convert
