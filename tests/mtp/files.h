/// Files for the tests of the MTP module, derived from one of `cairn synth`.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>
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

inline constexpr int32_t kDsparkBlock = 5;

/// A copy of the model of make_model() with a drafting head (DSpark) in place of its MTP module: two layers with the
/// module's weights, which read what the model's last layer leaves.
inline std::filesystem::path make_with_dspark(const gguf::Reader& file, const std::filesystem::path& path) {
  const std::string prefix = "blk.4.";
  std::vector<NewTensor> tensors;
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (!tensor.name.starts_with(prefix)) {
      tensors.push_back(copy_of(tensor));
      continue;
    }
    const std::string name(tensor.name.substr(prefix.size()));
    const bool stream_head = name.starts_with("nextn.hc_head");
    if (name.starts_with("nextn.") && !stream_head) continue;
    for (const char* stage : {"mtp.0.", "mtp.1."}) {
      if (stream_head && stage[4] == '0') continue;
      tensors.push_back(copy_of(tensor));
      tensors.back().name = stage + (stream_head ? name.substr(6) : name);
    }
  }
  const auto number = [&](const char* key) { return file.metadata().integer(std::string("deepseek4.") + key).value(); };
  const int64_t width = number("embedding_length"), vocabulary = file.find_tensor("token_embd.weight")->shape[1];
  constexpr int64_t kRank = 16;
  std::mt19937 random(9);
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, float mean, float spread) {
    std::normal_distribution<float> normal(mean, spread);
    std::vector<float> values(static_cast<size_t>(shape[0] * (shape.size() > 1 ? shape[1] : 1)));
    for (float& value : values) value = normal(random);
    const auto bytes = std::as_bytes(std::span(values));
    tensors.push_back({name, TensorType::kF32, std::move(shape), {bytes.begin(), bytes.end()}});
  };
  add("mtp.0.main_proj.weight", {width, width}, 0, 0.06F);
  add("mtp.0.main_norm.weight", {width}, 1, 0.2F);
  add("mtp.1.norm.weight", {width}, 1, 0.2F);
  add("mtp.1.markov_head.markov_w1.weight", {kRank, vocabulary}, 0, 0.1F);
  add("mtp.1.markov_head.markov_w2.weight", {kRank, vocabulary}, 0, 0.1F);
  gguf::Writer writer = gguf::Writer::create(path).value();
  for (const auto& [key, value] : file.metadata().values()) writer.set(key, value);
  writer.set_integer("deepseek4.block_count", gguf::ValueType::kU32, 4);
  writer.set_integer("deepseek4.nextn_predict_layers", gguf::ValueType::kU32, 0);
  writer.set_integer("deepseek4.dspark.block_size", gguf::ValueType::kU32, kDsparkBlock);
  writer.set_integer("deepseek4.dspark.noise_token_id", gguf::ValueType::kU32, 3);
  const uint32_t last = 3;
  gguf::Array targets;
  targets.type = gguf::ValueType::kU32;
  targets.size = 1;
  targets.numbers = std::as_bytes(std::span(&last, 1));
  writer.set("deepseek4.dspark.target_layer_ids", gguf::Value{gguf::ValueType::kArray, targets});
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
