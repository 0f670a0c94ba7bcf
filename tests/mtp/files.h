/// Files for the tests of the MTP module, derived from one of `cairn synth`.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/reader.h"
#include "gguf/writer.h"
#include "synth/synth.h"

namespace cairn::mtp {

/// A folder of one test, which is removed afterwards.
class Folder {
 public:
  Folder() : path_(std::filesystem::path(testing::TempDir()) / ("cairn_mtp_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// A model of four layers with compressed rows and one MTP module, blk.4; `more` are further keys of its shape.
inline std::filesystem::path make_model(const std::filesystem::path& path,
                                        std::span<const std::pair<const char*, const char*>> more = {},
                                        const synth::Options& options = {.type = "F32", .threads = 2}) {
  synth::Shape shape = synth::Shape::of_architecture("deepseek4").value();
  for (const auto& [key, value] : {std::pair{"nextn_predict_layers", "1"},
                                   {"attention.sliding_window", "16"},
                                   {"attention.compress_ratios", "0,4,128,4,0"},
                                   {"hash_layer_count", "1"}}) {
    EXPECT_TRUE(shape.set(key, value).has_value());
  }
  for (const auto& [key, value] : more) EXPECT_TRUE(shape.set(key, value).has_value());
  const auto plan = synth::plan(std::move(shape), options);
  EXPECT_TRUE(plan.has_value()) << plan.error().text();
  const auto written = synth::write(*plan, options, path);
  EXPECT_TRUE(written.has_value()) << written.error().text();
  return path;
}

struct NewTensor {
  std::string name;
  TensorType type;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

inline NewTensor copy_of(const gguf::Tensor& tensor) {
  return {std::string(tensor.name), tensor.type, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}};
}

inline void write_tensors(gguf::Writer& writer, const std::vector<NewTensor>& tensors) {
  for (const NewTensor& tensor : tensors) writer.declare(tensor.name, tensor.type, tensor.shape);
  for (const NewTensor& tensor : tensors) EXPECT_TRUE(writer.write(tensor.bytes).has_value());
  const auto finished = writer.finish();
  EXPECT_TRUE(finished.has_value()) << finished.error().text();
}

/// A file with the metadata of another and these tensors.
inline std::filesystem::path make_model_of(const gguf::Reader& file, const std::vector<NewTensor>& tensors,
                                           const std::filesystem::path& path) {
  gguf::Writer writer = gguf::Writer::create(path).value();
  for (const auto& [key, value] : file.metadata().values()) writer.set(key, value);
  write_tensors(writer, tensors);
  return path;
}

/// A copy of a file without one tensor.
inline std::filesystem::path make_without(const gguf::Reader& file, std::string_view name,
                                          const std::filesystem::path& path) {
  std::vector<NewTensor> tensors;
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (tensor.name != name) tensors.push_back(copy_of(tensor));
  }
  return make_model_of(file, tensors, path);
}

/// A file of the MTP module alone, as "mtp.0.", with its joint matrix as two.
inline std::filesystem::path make_own_file(const gguf::Reader& file, const std::filesystem::path& path) {
  const std::string prefix = "blk.4.";
  std::vector<NewTensor> tensors;
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (!tensor.name.starts_with(prefix)) continue;
    NewTensor made = copy_of(tensor);
    std::string name(tensor.name.substr(prefix.size()));
    if (name.starts_with("nextn.")) name.erase(0, 6);
    if (name == "shared_head_norm.weight") name = "norm.weight";
    made.name = "mtp.0." + name;
    if (name != "eh_proj.weight") {
      tensors.push_back(std::move(made));
      continue;
    }
    const auto half = static_cast<size_t>(made.shape[1]) * sizeof(float);
    NewTensor token{"mtp.0.e_proj.weight", made.type, {made.shape[1], made.shape[1]}, {}}, stream = token;
    stream.name = "mtp.0.h_proj.weight";
    for (size_t at = 0; at < made.bytes.size(); at += 2 * half) {
      const auto row = made.bytes.begin() + static_cast<std::ptrdiff_t>(at);
      token.bytes.insert(token.bytes.end(), row, row + static_cast<std::ptrdiff_t>(half));
      stream.bytes.insert(stream.bytes.end(), row + static_cast<std::ptrdiff_t>(half),
                          row + static_cast<std::ptrdiff_t>(2 * half));
    }
    tensors.push_back(std::move(token));
    tensors.push_back(std::move(stream));
  }
  gguf::Writer writer = gguf::Writer::create(path).value();
  writer.set("general.architecture", "deepseek4_mtp_support");
  write_tensors(writer, tensors);
  return path;
}

/// Writes a copy of the model, changed so that it mostly generates its first `tokens` tokens; so some drafts are right.
inline std::filesystem::path make_talker(const gguf::Reader& file, int64_t tokens, const std::filesystem::path& path) {
  std::vector<NewTensor> tensors;
  for (const gguf::Tensor& tensor : file.tensors()) tensors.push_back(copy_of(tensor));
  if (file.find_tensor("output.weight") == nullptr) {
    tensors.push_back(copy_of(*file.find_tensor("token_embd.weight")));
    tensors.back().name = "output.weight";
  }
  for (NewTensor& made : tensors) {
    if (made.name == "output.weight") {
      std::vector<float> values(made.bytes.size() / sizeof(float));
      std::memcpy(values.data(), made.bytes.data(), made.bytes.size());
      for (size_t i = static_cast<size_t>(tokens * made.shape[0]); i < values.size(); ++i) values[i] *= 0.01F;
      std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
    }
  }
  return make_model_of(file, tensors, path);
}

}  // namespace cairn::mtp
