#include "convert/huggingface/new_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <system_error>
#include <utility>

#include "base/system/machine.h"
#include "base/system/thread_pool.h"
#include "convert/split_output.h"
#include "gguf/writer.h"
#include "quant/codec.h"

namespace cairn::convert {
namespace {

// Elements that one thread converts at a time, and between two writes: they bound memory.
constexpr int64_t kRowsElements = 16'384;
constexpr int64_t kWrittenElements = 4 << 20;

int64_t tensor_bytes(const PlannedTensor& tensor, TensorType type) {
  return tensor.rows->count() * row_bytes(type, tensor.rows->length());
}

// Converts the rows of one tensor.
class TensorWriter {
 public:
  TensorWriter(const PlannedTensor& tensor, TensorType type, ThreadPool& pool, std::vector<std::vector<float>>& scratch)
      : tensor_(tensor), type_(type), pool_(pool), scratch_(scratch) {}

  // `wrote` is called with the bytes of each part.
  Result<void> write(gguf::Writer& writer, const std::function<void(int64_t)>& wrote) {
    const Rows& rows = *tensor_.rows;
    const int64_t piece = std::clamp<int64_t>(std::max(rows.piece_rows(), kRowsElements / rows.length()), 1,
                                              std::max<int64_t>(1, rows.count()));
    const int64_t slab = std::max(piece, kWrittenElements / rows.length() / piece * piece);
    const int64_t bytes_per_row = row_bytes(type_, rows.length());
    std::vector<std::byte> bytes;
    for (int64_t begin = 0; begin < rows.count(); begin += slab) {
      const int64_t end = std::min(begin + slab, rows.count());
      bytes.resize(static_cast<size_t>((end - begin) * bytes_per_row));
      std::atomic<int64_t> bad{kNone};
      pool_.parallel_for(end - begin, piece, [&](int64_t from, int64_t until, int member) {
        std::byte* to = bytes.data() + from * bytes_per_row;
        const int64_t found = convert(begin + from, begin + until, to, scratch_[static_cast<size_t>(member)]);
        int64_t known = bad.load(std::memory_order_relaxed);
        while (found < known && !bad.compare_exchange_weak(known, found, std::memory_order_relaxed)) {
        }
      });
      if (bad.load() != kNone) return refuse(bad.load());
      CAIRN_TRY_VOID(writer.write(bytes));
      rows.release(begin, end);
      wrote(static_cast<int64_t>(bytes.size()));
    }
    return {};
  }

 private:
  static constexpr int64_t kNone = INT64_MAX;

  // Returns the first element that the type cannot hold, or kNone.
  int64_t convert(int64_t begin, int64_t end, std::byte* to, std::vector<float>& values) const {
    const Rows& rows = *tensor_.rows;
    if (rows.blocks() == type_ && type_ != TensorType::kF32) {
      rows.read_blocks(begin, end, to);
      return kNone;
    }
    values.resize(static_cast<size_t>((end - begin) * rows.length()));
    rows.read(begin, end, values.data());
    const float limit = quant::encodable_max(type_);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!(std::fabs(values[i]) <= limit)) return begin * rows.length() + static_cast<int64_t>(i);
    }
    quant::encode_row(type_, values, {},
                      std::span(to, static_cast<size_t>((end - begin) * row_bytes(type_, rows.length()))));
    return kNone;
  }

  std::unexpected<Error> refuse(int64_t element) const {
    const int64_t length = tensor_.rows->length(), row = element / length;
    std::vector<float> values(static_cast<size_t>(length));
    tensor_.rows->read(row, row + 1, values.data());
    const float value = values[static_cast<size_t>(element % length)];
    std::string at = fmt::format("tensor {}, row {}, column {}", tensor_.name, row, element % length);
    if (!std::isfinite(value)) {
      return fail_at(std::move(at), Code::kCorruptFile, "the weight is {}: the checkpoint is damaged", value);
    }
    return fail_at(std::move(at), Code::kUnsupported,
                   "the weight {} is larger than {} can hold ({}); choose F32, or BF16 if that is enough", value,
                   tensor_type_name(type_), quant::encodable_max(type_));
  }

  const PlannedTensor& tensor_;
  TensorType type_;
  ThreadPool& pool_;
  std::vector<std::vector<float>>& scratch_;
};

}  // namespace

Result<std::vector<std::filesystem::path>> write_files(const std::filesystem::path& out, const Conversion& conversion,
                                                       std::span<const TensorType> types,
                                                       const ConvertOptions& options) {
  const std::span<const PlannedTensor> tensors = conversion.tensors();
  std::vector<gguf::Tensor> declared;
  for (size_t i = 0; i < tensors.size(); ++i)
    declared.push_back({.name = tensors[i].name, .type = types[i], .shape = tensors[i].shape, .bytes = {}});
  std::vector<size_t> first = {0};  // tensors of each file
  if (options.split_bytes > 0) first = parts_of_size(declared, types, options.split_bytes);
  const auto parts = static_cast<uint32_t>(first.size());
  CAIRN_TRY(SplitOutput output, SplitOutput::create(out, declared, types, std::move(first)));
  conversion.metadata().write(output.first());

  const int threads = options.threads == 0 ? usable_cores() : options.threads;
  ThreadPool pool(threads);
  std::vector<std::vector<float>> scratch(static_cast<size_t>(threads));
  ConvertProgress progress{{}, 0, static_cast<int64_t>(tensors.size()), 0, 0};
  for (size_t i = 0; i < tensors.size(); ++i) progress.bytes_total += tensor_bytes(tensors[i], types[i]);
  for (size_t i = 0; i < tensors.size(); ++i) {
    progress.tensor = tensors[i].name;
    progress.tensor_index = static_cast<int64_t>(i);
    CAIRN_TRY_VOID(TensorWriter(tensors[i], types[i], pool, scratch).write(output.of(i), [&](int64_t bytes) {
      progress.bytes_done += bytes;
      if (options.progress) options.progress(progress);
    }));
    conversion.checkpoint().release();
  }
  CAIRN_TRY_VOID(output.finish());
  std::vector<std::filesystem::path> paths;
  for (uint32_t part = 0; part < parts; ++part) paths.push_back(SplitOutput::path_of(out, part, parts));
  return paths;
}

}  // namespace cairn::convert
