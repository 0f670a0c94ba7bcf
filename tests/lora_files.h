/// For tests of LoRA adapters: their files, and what a model's tensors are with their products in them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "edited_model.h"
#include "gguf/reader.h"
#include "gguf/writer.h"

namespace cairn {

inline constexpr float kLoraAlpha = 3;

/// A file in the folder for temporary files, removed with the object.
class AdapterFile {
 public:
  AdapterFile(const std::string& name, const std::string& architecture, const std::vector<AddedTensor>& tensors,
              const std::string& type = "lora", std::optional<float> alpha = kLoraAlpha)
      : path_(std::filesystem::temp_directory_path() / (name + "." + std::to_string(::getpid()) + ".gguf")) {
    auto writer = gguf::Writer::create(path_);
    EXPECT_TRUE(writer.has_value());
    writer->set("general.type", {gguf::ValueType::kString, std::string_view("adapter")});
    writer->set("general.architecture", {gguf::ValueType::kString, std::string_view(architecture)});
    writer->set("adapter.type", {gguf::ValueType::kString, std::string_view(type)});
    if (alpha) writer->set("adapter.lora.alpha", {gguf::ValueType::kF32, double{*alpha}});
    for (const AddedTensor& tensor : tensors) writer->declare(tensor.name, TensorType::kF32, tensor.shape);
    for (const AddedTensor& tensor : tensors)
      EXPECT_TRUE(writer->write(std::as_bytes(std::span(tensor.values))).has_value());
    EXPECT_TRUE(writer->finish().has_value());
  }
  ~AdapterFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// A float32 tensor of the file in `merged`, where it is put under `name` if it is not there yet.
inline AddedTensor& merged_tensor(const gguf::Tensor& tensor, std::vector<AddedTensor>& merged, std::string_view name) {
  const auto found = std::ranges::find(merged, name, &AddedTensor::name);
  if (found != merged.end()) return *found;
  EXPECT_EQ(tensor.type, TensorType::kF32);
  AddedTensor& added = merged.emplace_back(std::string(name), tensor.shape, std::vector<float>(tensor.elements()));
  std::memcpy(added.values.data(), tensor.bytes.data(), tensor.bytes.size());
  return added;
}

/// sum over r of b[r] * a[r * a_stride].
inline float low_rank_sum(const float* b, const float* a, int64_t rank, int64_t a_stride) {
  double sum = 0;
  for (int64_t r = 0; r < rank; ++r) sum += double{b[r]} * a[r * a_stride];
  return static_cast<float>(sum);
}

/// Tensors of layers that no product has.
inline bool is_multiplied(const gguf::Tensor& tensor) {
  if (tensor.shape.size() < 2 || !tensor.name.starts_with("blk.") || tensor.type != TensorType::kF32) return false;
  for (const std::string_view other : {"_ape.weight", "conv1d", "engram_embd", "engram_q", "engram_k"}) {
    if (tensor.name.contains(other) && !tensor.name.contains("engram_kv")) return false;
  }
  return true;
}

/// Parts of rank `rank` for the table of tokens, and its rows with `scale` times their product in `merged`. The output
/// stays as it is where it is the same tensor.
inline void add_table_parts(const gguf::Reader& file, int64_t rank, float scale, std::vector<AddedTensor>& parts,
                            std::vector<AddedTensor>& merged) {
  const gguf::Tensor& table = *file.find_tensor("token_embd.weight");
  const int64_t cols = table.shape[0], rows = table.shape[1];
  const AddedTensor a = random_tensor("token_embd.weight.lora_a", {rank, rows}, 1000 + static_cast<uint32_t>(rank));
  const AddedTensor b = random_tensor("token_embd.weight.lora_b", {rank, cols}, 2000 + static_cast<uint32_t>(rank));
  if (file.find_tensor("output.weight") == nullptr) merged_tensor(table, merged, "output.weight");
  AddedTensor& whole = merged_tensor(table, merged, "token_embd.weight");
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      whole.values[row * cols + col] +=
          scale * kLoraAlpha / rank * low_rank_sum(&b.values[col * rank], &a.values[row * rank], rank, 1);
    }
  }
  parts.push_back(a);
  parts.push_back(b);
}

/// For the matrices of layers that `wanted` names: parts of rank `rank` and, in `merged`, the matrix with `scale` times
/// their product. Of matrices per expert those of rank 1 have a part that all experts share.
inline std::vector<AddedTensor> parts_of(const gguf::Reader& file, int64_t rank, float scale,
                                         std::vector<AddedTensor>& merged,
                                         const std::function<bool(const gguf::Tensor&)>& wanted = is_multiplied) {
  std::vector<AddedTensor> parts;
  uint32_t seed = static_cast<uint32_t>(rank);
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (!wanted(tensor)) continue;
    const int64_t cols = tensor.shape[0], rows = tensor.shape[1];
    const bool has_experts = tensor.shape.size() == 3;
    const int64_t experts = has_experts ? tensor.shape[2] : 1;
    const std::string name(tensor.name);
    const bool shares_b = has_experts && rank == 1 && name.contains("down"), shares_a = rank == 1 && !shares_b;
    std::vector<int64_t> shape_a{cols, rank}, shape_b{rank, rows};
    if (has_experts && !shares_a) shape_a.push_back(experts);
    if (has_experts && !shares_b) shape_b.push_back(experts);
    const AddedTensor a = random_tensor(name + ".lora_a", shape_a, ++seed);
    const AddedTensor b = random_tensor(name + ".lora_b", shape_b, ++seed);
    AddedTensor& whole = merged_tensor(tensor, merged, name);
    for (int64_t e = 0; e < experts; ++e) {
      const float* own_a = a.values.data() + (shares_a ? 0 : e * rank * cols);
      const float* own_b = b.values.data() + (shares_b ? 0 : e * rows * rank);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t col = 0; col < cols; ++col) {
          whole.values[(e * rows + row) * cols + col] +=
              scale * kLoraAlpha / rank * low_rank_sum(own_b + row * rank, own_a + col, rank, cols);
        }
      }
    }
    parts.push_back(a);
    parts.push_back(b);
  }
  return parts;
}

}  // namespace cairn
