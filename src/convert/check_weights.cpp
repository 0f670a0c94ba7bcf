#include "convert/check_weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>

#include "base/system/machine.h"
#include "base/system/thread_pool.h"
#include "quant/codec.h"

namespace cairn::convert {
namespace {

// Elements that one thread decodes at a time, a multiple of every block; and those between two calls of OnCopy.
constexpr int64_t kCheckedElements = 16'384;
constexpr int64_t kCheckedSlab = 512 * kCheckedElements;

class Checker {
 public:
  Checker(int threads, int64_t bytes, const OnCopy& on_read)
      : pool_(threads), values_(static_cast<size_t>(threads)), on_read_(on_read), progress_{{}, 0, bytes} {}

  void check(const gguf::Tensor& tensor, WeightCheck& result) {
    progress_.tensor = tensor.name;
    if (!quant::can_decode(tensor.type)) return read(std::ssize(tensor.bytes));
    const int64_t elements = tensor.elements();
    ++result.tensors;
    result.weights += elements;
    bad_ = 0;
    first_bad_ = elements;
    for (int64_t begin = 0; begin < elements; begin += kCheckedSlab) {
      const int64_t end = std::min(begin + kCheckedSlab, elements);
      pool_.parallel_for(end - begin, kCheckedElements, [&](int64_t from, int64_t until, int member) {
        check_piece(tensor, begin + from, begin + until, values_[static_cast<size_t>(member)]);
      });
      read(row_bytes(tensor.type, end - begin));
    }
    if (bad_ > 0) result.bad.push_back(describe(tensor));
  }

 private:
  static void decode(const gguf::Tensor& tensor, int64_t begin, int64_t end, std::vector<float>& values) {
    values.resize(static_cast<size_t>(end - begin));
    const auto blocks = tensor.bytes.subspan(static_cast<size_t>(row_bytes(tensor.type, begin)),
                                             static_cast<size_t>(row_bytes(tensor.type, end - begin)));
    quant::decode_row(tensor.type, blocks, values);
  }

  void check_piece(const gguf::Tensor& tensor, int64_t begin, int64_t end, std::vector<float>& values) {
    decode(tensor, begin, end, values);
    const auto is_bad = [](float value) { return !std::isfinite(value); };
    const auto bad = std::ranges::count_if(values, is_bad);
    if (bad == 0) return;
    bad_.fetch_add(bad, std::memory_order_relaxed);
    const int64_t first = begin + (std::ranges::find_if(values, is_bad) - values.begin());
    int64_t known = first_bad_.load(std::memory_order_relaxed);
    while (first < known && !first_bad_.compare_exchange_weak(known, first, std::memory_order_relaxed)) {
    }
  }

  BadTensor describe(const gguf::Tensor& tensor) {
    const int64_t first = first_bad_;
    const int64_t block = tensor_type_info(tensor.type).block_elements;
    const int64_t begin = first / block * block;
    decode(tensor, begin, begin + block, values_[0]);
    return {.name = tensor.name,
            .weights = bad_,
            .row = first / tensor.shape[0],
            .column = first % tensor.shape[0],
            .value = values_[0][static_cast<size_t>(first - begin)]};
  }

  void read(int64_t bytes) {
    progress_.bytes_done += bytes;
    if (on_read_) on_read_(progress_);
  }

  ThreadPool pool_;
  std::vector<std::vector<float>> values_;  // one for each member of the pool
  std::atomic<int64_t> bad_ = 0;
  std::atomic<int64_t> first_bad_ = 0;  // element of the tensor
  const OnCopy& on_read_;
  CopyProgress progress_;
};

}  // namespace

WeightCheck check_weights(const gguf::Reader& file, int threads, const OnCopy& on_read) {
  Checker checker(threads == 0 ? usable_cores() : threads, Contents::of(file).tensor_bytes(), on_read);
  WeightCheck result;
  for (const gguf::Tensor& tensor : file.tensors()) checker.check(tensor, result);
  return result;
}

}  // namespace cairn::convert
