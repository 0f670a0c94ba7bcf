/// For tests: model files of the reference data and of the test's own making, in a folder that goes with the test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "gguf/reader.h"
#include "gguf/writer.h"

namespace cairn::convert {

class ModelFiles : public ::testing::Test {
 protected:
  ModelFiles()
      : folder_(std::filesystem::path(::testing::TempDir()) / ("cairn_convert_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ModelFiles() override { std::filesystem::remove_all(folder_); }

  static std::filesystem::path fixture(const std::string& name) {
    return std::filesystem::path(test_data()) / "models" / (name + ".gguf");
  }
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  static std::string bytes_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t files() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {})); }
  static gguf::Reader opened(const std::filesystem::path& file) {
    auto reader = gguf::Reader::open(file);
    EXPECT_TRUE(reader.has_value()) << reader.error().text();
    return std::move(reader).value();
  }

  /// A file with keys in an order that is not that of the alphabet, and three F32 tensors of `rows` rows of 8 whose
  /// elements are `value` and count on.
  std::filesystem::path written(const std::string& name, float value = 0, int64_t rows = 4) const {
    auto writer = gguf::Writer::create(path(name));
    writer->set("general.architecture", std::string_view("test"));
    writer->set_integer("zebra", gguf::ValueType::kI32, -5);
    writer->set("general.name", std::string_view("A name"));
    writer->set_number("a.number", gguf::ValueType::kF32, 0.1);
    writer->set_boolean("flag", true);
    for (const char* tensor : {"first.weight", "second.weight", "third.bias"})
      writer->declare(tensor, TensorType::kF32, std::array<int64_t, 2>{8, rows});
    std::vector<float> values(static_cast<size_t>(3 * 8 * rows));
    for (float& one : values) one = value++;
    EXPECT_TRUE(writer->write(std::as_bytes(std::span(values))) && writer->finish());
    return path(name);
  }

  std::filesystem::path folder_;
};

}  // namespace cairn::convert
