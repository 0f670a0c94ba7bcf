#include "convert/compare.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <variant>

namespace cairn::convert {
namespace {

// Bytes that are compared at a time.
constexpr size_t kCompareBytes = size_t{4} << 20;

bool same_value(const gguf::Value& a, const gguf::Value& b);

bool same_array(const gguf::Array& a, const gguf::Array& b) {
  return a.type == b.type && a.size == b.size && std::ranges::equal(a.numbers, b.numbers) && a.strings == b.strings &&
         std::ranges::equal(a.arrays, b.arrays, same_value);
}

bool same_value(const gguf::Value& a, const gguf::Value& b) {
  if (a.type != b.type || a.data.index() != b.data.index()) return false;
  if (const auto* array = std::get_if<gguf::Array>(&a.data)) return same_array(*array, std::get<gguf::Array>(b.data));
  if (const auto* number = std::get_if<double>(&a.data))  // by their bits: a NaN is the same as itself, -0 is not 0
    return std::bit_cast<uint64_t>(*number) == std::bit_cast<uint64_t>(std::get<double>(b.data));
  if (const auto* number = std::get_if<uint64_t>(&a.data)) return *number == std::get<uint64_t>(b.data);
  if (const auto* number = std::get_if<int64_t>(&a.data)) return *number == std::get<int64_t>(b.data);
  if (const auto* flag = std::get_if<bool>(&a.data)) return *flag == std::get<bool>(b.data);
  return std::get<std::string_view>(a.data) == std::get<std::string_view>(b.data);
}

void compare_keys(const gguf::Metadata& a, const gguf::Metadata& b, Comparison& comparison) {
  std::set<std::string_view> keys;
  for (const gguf::Metadata* metadata : {&a, &b}) {
    for (const auto& [key, value] : metadata->values()) {
      if (!is_split_key(key)) keys.insert(key);
    }
  }
  for (const std::string_view key : keys) {
    const gguf::Value* const in_a = a.find(key);
    const gguf::Value* const in_b = b.find(key);
    ++comparison.keys_compared;
    if (in_a == nullptr || in_b == nullptr || !same_value(*in_a, *in_b)) comparison.keys.push_back({key, in_a, in_b});
  }
}

// Goes through the tensors of two files and counts what was read.
class TensorComparer {
 public:
  TensorComparer(int64_t bytes, Comparison& comparison, const OnCopy& on_read)
      : comparison_(comparison), on_read_(on_read), progress_{{}, 0, bytes} {}

  void compare(const gguf::Tensor& a, const gguf::Tensor* b) {
    TensorDifference difference{.name = a.name, .a = &a, .b = b};
    ++comparison_.tensors_compared;
    progress_.tensor = a.name;
    if (difference.same_layout()) {
      compare_bytes(difference);
      comparison_.bytes_compared += std::ssize(a.bytes);
      if (difference.bytes == 0) return;
    } else {
      read(std::ssize(a.bytes));
    }
    comparison_.tensors.push_back(difference);
  }

 private:
  void compare_bytes(TensorDifference& difference) {
    const auto a = difference.a->bytes, b = difference.b->bytes;
    for (size_t begin = 0; begin < a.size(); begin += kCompareBytes) {
      const size_t size = std::min(kCompareBytes, a.size() - begin);
      if (std::memcmp(a.data() + begin, b.data() + begin, size) != 0) count_bytes(difference, begin, begin + size);
      read(static_cast<int64_t>(size));
    }
  }

  static void count_bytes(TensorDifference& difference, size_t begin, size_t end) {
    const auto a = difference.a->bytes, b = difference.b->bytes;
    for (size_t i = begin; i < end; ++i) {
      if (a[i] == b[i]) continue;
      if (difference.bytes == 0) difference.first_byte = static_cast<int64_t>(i);
      ++difference.bytes;
    }
  }

  void read(int64_t bytes) {
    progress_.bytes_done += bytes;
    if (on_read_) on_read_(progress_);
  }

  Comparison& comparison_;
  const OnCopy& on_read_;
  CopyProgress progress_;
};

}  // namespace

Comparison compare(const gguf::Reader& a, const gguf::Reader& b, const OnCopy& on_read) {
  Comparison comparison;
  compare_keys(a.metadata(), b.metadata(), comparison);
  TensorComparer comparer(Contents::of(a).tensor_bytes(), comparison, on_read);
  for (const gguf::Tensor& tensor : a.tensors()) comparer.compare(tensor, b.find_tensor(tensor.name));
  for (const gguf::Tensor& tensor : b.tensors()) {
    if (a.find_tensor(tensor.name) != nullptr) continue;
    ++comparison.tensors_compared;
    comparison.tensors.push_back({.name = tensor.name, .b = &tensor});
  }
  return comparison;
}

}  // namespace cairn::convert
