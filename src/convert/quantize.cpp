#include "convert/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <system_error>
#include <utility>

#include "base/system/machine.h"
#include "base/system/thread_pool.h"
#include "gguf/split.h"
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

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code missing;  // a file that does not exist is not the same file
  return std::filesystem::equivalent(a, b, missing);
}

// Error if the output would replace the input, or a part of it, which is mapped.
Result<void> check_paths(const std::filesystem::path& in, const std::filesystem::path& out) {
  std::vector<std::filesystem::path> parts = {in};
  if (const auto name = gguf::split_name(in.filename().string())) {
    for (uint32_t part = 1; part <= std::min(name->parts, gguf::kSplitsMax); ++part) {
      parts.push_back(in.parent_path() / gguf::split_file_name(*name, part));
    }
  }
  for (const auto& part : parts) {
    if (part == out || same_file(part, out)) {
      return fail(Code::kInvalidArgument, "the output {} would replace the input; give it another name", out.string());
    }
  }
  return {};
}

void copy_metadata(const gguf::Metadata& metadata, QuantizeMix mix, gguf::Writer& writer) {
  for (const auto& [key, value] : metadata.values()) {
    if (!key.starts_with("split.")) writer.set(key, value);
  }
  writer.set_integer("general.quantization_version", gguf::ValueType::kU32, kQuantizationVersion);
  writer.set_integer("general.file_type", gguf::ValueType::kU32, file_type_id(quantize_mix_info(mix).name).value());
}

// Converts the elements of one tensor, which are consecutive whole blocks of both types.
class TensorConverter {
 public:
  TensorConverter(const gguf::Tensor& tensor, TensorType to, ThreadPool& pool, std::vector<std::vector<float>>& scratch)
      : tensor_(tensor), to_(to), limit_(quant::encodable_max(to)), pool_(pool), scratch_(scratch) {}

  // Elements [begin, end) into `out`, which is resized to their bytes.
  Result<void> convert(int64_t begin, int64_t end, std::vector<std::byte>& out) {
    out.resize(static_cast<size_t>(row_bytes(to_, end - begin)));
    std::atomic<int64_t> first_bad{kNone};
    pool_.parallel_for(end - begin, kPieceElements, [&](int64_t from, int64_t until, int member) {
      const int64_t bad = convert_piece(begin + from, begin + until, begin, scratch_[member], out);
      int64_t known = first_bad.load(std::memory_order_relaxed);
      while (bad < known && !first_bad.compare_exchange_weak(known, bad, std::memory_order_relaxed)) {
      }
    });
    const int64_t bad = first_bad.load(std::memory_order_relaxed);
    if (bad == kNone) return {};
    return refuse(bad);
  }

 private:
  static constexpr int64_t kNone = INT64_MAX;

  std::span<const std::byte> blocks(int64_t begin, int64_t end) const {
    return tensor_.bytes.subspan(static_cast<size_t>(row_bytes(tensor_.type, begin)),
                                 static_cast<size_t>(row_bytes(tensor_.type, end - begin)));
  }

  // Returns the first element that cannot be encoded, or kNone.
  int64_t convert_piece(int64_t begin, int64_t end, int64_t slab_begin, std::vector<float>& values,
                        std::vector<std::byte>& out) const {
    values.resize(static_cast<size_t>(end - begin));
    quant::decode_row(tensor_.type, blocks(begin, end), values);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!(std::fabs(values[i]) <= limit_)) return begin + static_cast<int64_t>(i);
    }
    const auto to = std::span(out).subspan(static_cast<size_t>(row_bytes(to_, begin - slab_begin)),
                                           static_cast<size_t>(row_bytes(to_, end - begin)));
    if (to_ == tensor_.type) {
      std::ranges::copy(blocks(begin, end), to.begin());
    } else {
      quant::encode_row(to_, values, {}, to);
    }
    return kNone;
  }

  std::unexpected<Error> refuse(int64_t element) const {
    const int64_t block = tensor_type_info(tensor_.type).block_elements;
    std::vector<float> values(static_cast<size_t>(block));
    const int64_t begin = element / block * block;
    quant::decode_row(tensor_.type, blocks(begin, begin + block), values);
    const float value = values[static_cast<size_t>(element - begin)];
    const int64_t row = element / tensor_.shape[0];
    const int64_t column = element % tensor_.shape[0];
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
  float limit_;
  ThreadPool& pool_;
  std::vector<std::vector<float>>& scratch_;
};

// State of quantize_file while it converts the tensors.
class Job {
 public:
  Job(const gguf::Reader& file, const QuantizeOptions& options, int threads, gguf::Writer& writer)
      : file_(file),
        options_(options),
        types_(choose_types(file, options.mix)),
        pool_(threads),
        scratch_(static_cast<size_t>(threads)),
        writer_(writer) {}

  Result<QuantizeReport> run() {
    const auto tensors = file_.tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
      writer_.declare(tensors[i].name, types_[i], tensors[i].shape);
      report_.bytes_in += static_cast<int64_t>(tensors[i].bytes.size());
    }
    for (size_t i = 0; i < tensors.size(); ++i) CAIRN_TRY_VOID(write_tensor(i));
    CAIRN_TRY_VOID(writer_.finish());
    return report_;
  }

 private:
  Result<void> write_tensor(size_t index) {
    const gguf::Tensor& tensor = file_.tensors()[index];
    const TensorType to = types_[index];
    const int64_t elements = tensor.elements();
    ++report_.tensors;
    report_.elements += elements;
    report_.bytes_out += row_bytes(to, elements);
    report_.fallbacks += is_fallback(tensor, to) ? 1 : 0;
    if (!quant::can_encode(to)) {  // its type is kept, and its values are not checked
      CAIRN_TRY_VOID(writer_.write(tensor.bytes));
      notify(index, static_cast<int64_t>(tensor.bytes.size()));
      return {};
    }
    TensorConverter converter(tensor, to, pool_, scratch_);
    for (int64_t begin = 0; begin < elements; begin += kSlabElements) {
      const int64_t end = std::min(begin + kSlabElements, elements);
      CAIRN_TRY_VOID(converter.convert(begin, end, slab_));
      CAIRN_TRY_VOID(writer_.write(slab_));
      notify(index, row_bytes(tensor.type, end - begin));
    }
    return {};
  }

  // Whether the row's length did not fit the type of the mix.
  bool is_fallback(const gguf::Tensor& tensor, TensorType to) const {
    const bool narrow =
        options_.mix != QuantizeMix::kF32 && options_.mix != QuantizeMix::kF16 && options_.mix != QuantizeMix::kBF16;
    if (!narrow || to == tensor.type) return false;
    return to == TensorType::kF16 || to == TensorType::kBF16 ||
           (to == TensorType::kQ8_0 && options_.mix != QuantizeMix::kQ8_0);
  }

  void notify(size_t index, int64_t bytes) {
    bytes_done_ += bytes;
    if (!options_.progress) return;
    const gguf::Tensor& tensor = file_.tensors()[index];
    options_.progress({tensor.name, tensor.type, types_[index], static_cast<int64_t>(index),
                       static_cast<int64_t>(file_.tensors().size()), bytes_done_, report_.bytes_in});
  }

  const gguf::Reader& file_;
  const QuantizeOptions& options_;
  std::vector<TensorType> types_;
  ThreadPool pool_;
  std::vector<std::vector<float>> scratch_;  // one for each member of the pool
  std::vector<std::byte> slab_;
  gguf::Writer& writer_;
  QuantizeReport report_;
  int64_t bytes_done_ = 0;
};

}  // namespace

double QuantizeReport::bits_per_weight() const {
  return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes_out) / static_cast<double>(elements);
}

Result<QuantizeReport> quantize_file(const std::filesystem::path& in, const std::filesystem::path& out,
                                     const QuantizeOptions& options) {
  if (options.threads < 0 || options.threads > kQuantizeThreadsMax) {
    return fail(Code::kInvalidArgument, "{} threads were asked for; give 1 to {}, or 0 for one per core",
                options.threads, kQuantizeThreadsMax);
  }
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(in));
  CAIRN_TRY_VOID(check_paths(in, out));
  CAIRN_TRY(gguf::Writer writer, gguf::Writer::create(out));
  copy_metadata(file.metadata(), options.mix, writer);
  const int threads = options.threads == 0 ? usable_cores() : options.threads;
  return Job(file, options, threads, writer).run();
}

}  // namespace cairn::convert
