/// For tests: a model file with tensors and keys added to those of a fixture, or without some of them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gguf/reader.h"
#include "gguf/writer.h"

namespace cairn {

struct AddedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

inline AddedTensor random_tensor(std::string name, std::vector<int64_t> shape, uint32_t seed) {
  AddedTensor tensor{std::move(name), std::move(shape), {}};
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= size;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.3f);
  for (int64_t i = 0; i < elements; ++i) tensor.values.push_back(normal(random));
  return tensor;
}

/// The file is removed with the object.
class EditedModel {
 public:
  /// `keys` sets metadata; a tensor of `added` replaces one of its name. What `left_out` names, tensors and keys, is
  /// not taken over.
  EditedModel(const std::filesystem::path& from, const std::string& name, const std::vector<AddedTensor>& added,
              const std::function<void(gguf::Writer&)>& keys, const std::vector<std::string>& left_out = {})
      : path_(std::filesystem::temp_directory_path() / (name + "." + std::to_string(::getpid()) + ".gguf")) {
    const auto file = gguf::Reader::open(from);
    EXPECT_TRUE(file.has_value());
    auto writer = gguf::Writer::create(path_);
    EXPECT_TRUE(writer.has_value());
    const auto is_left_out = [&](std::string_view what) { return std::ranges::find(left_out, what) != left_out.end(); };
    for (const auto& [key, value] : file->metadata().values()) {
      if (!is_left_out(key)) writer->set(key, value);
    }
    keys(*writer);
    const auto is_added = [&](std::string_view tensor) {
      return is_left_out(tensor) || std::ranges::find(added, tensor, &AddedTensor::name) != added.end();
    };
    for (const auto& tensor : file->tensors()) {
      if (!is_added(tensor.name)) writer->declare(tensor.name, tensor.type, tensor.shape);
    }
    for (const auto& tensor : added) writer->declare(tensor.name, TensorType::kF32, tensor.shape);
    for (const auto& tensor : file->tensors()) {
      if (is_added(tensor.name)) continue;
      EXPECT_TRUE(writer->write(tensor.bytes).has_value());
    }
    for (const auto& tensor : added) EXPECT_TRUE(writer->write(std::as_bytes(std::span(tensor.values))).has_value());
    EXPECT_TRUE(writer->finish().has_value());
  }
  ~EditedModel() { std::filesystem::remove(path_); }
  EditedModel(const EditedModel&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace cairn
