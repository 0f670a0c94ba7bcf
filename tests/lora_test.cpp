// LoRA adapters: the logits are those of a model whose matrices hold the adapters' products.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "edited_model.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "golden_model.h"
#include "quant/float_formats.h"

namespace cairn {
namespace {

constexpr float kAlpha = 3;

/// A file in the folder for temporary files, removed with the object.
class AdapterFile {
 public:
  AdapterFile(const std::string& name, const std::string& architecture, const std::vector<AddedTensor>& tensors,
              const std::string& type = "lora")
      : path_(std::filesystem::temp_directory_path() / (name + "." + std::to_string(::getpid()) + ".gguf")) {
    auto writer = gguf::Writer::create(path_);
    EXPECT_TRUE(writer.has_value());
    writer->set("general.type", {gguf::ValueType::kString, std::string_view("adapter")});
    writer->set("general.architecture", {gguf::ValueType::kString, std::string_view(architecture)});
    writer->set("adapter.type", {gguf::ValueType::kString, std::string_view(type)});
    writer->set("adapter.lora.alpha", {gguf::ValueType::kF32, double{kAlpha}});
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

gguf::Reader open(const std::string& model) { return gguf::Reader::open(fixture(model)).value(); }

/// For all matrices of the layers: parts of rank `rank` and, in `merged`, the matrix with `scale` times their product.
std::vector<AddedTensor> parts_of(const gguf::Reader& file, int64_t rank, float scale,
                                  std::vector<AddedTensor>& merged) {
  std::vector<AddedTensor> parts;
  uint32_t seed = static_cast<uint32_t>(rank);
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (tensor.shape.size() < 2 || !tensor.name.starts_with("blk.")) continue;
    const int64_t cols = tensor.shape[0], rows = tensor.shape[1];
    const int64_t experts = tensor.shape.size() == 3 ? tensor.shape[2] : 1;
    const std::string name(tensor.name);
    const std::vector<int64_t> more = tensor.shape.size() == 3 ? std::vector{experts} : std::vector<int64_t>{};
    std::vector<int64_t> shape_a{cols, rank}, shape_b{rank, rows};
    shape_a.insert(shape_a.end(), more.begin(), more.end());
    shape_b.insert(shape_b.end(), more.begin(), more.end());
    const AddedTensor a = random_tensor(name + ".lora_a", shape_a, ++seed);
    const AddedTensor b = random_tensor(name + ".lora_b", shape_b, ++seed);
    auto found = std::ranges::find(merged, name, &AddedTensor::name);
    if (found == merged.end()) {
      found = merged.insert(merged.end(), {name, tensor.shape, std::vector<float>(tensor.elements())});
      std::memcpy(found->values.data(), tensor.bytes.data(), tensor.bytes.size());
    }
    for (int64_t e = 0; e < experts; ++e) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t col = 0; col < cols; ++col) {
          double sum = 0;
          for (int64_t r = 0; r < rank; ++r)
            sum += double{b.values[(e * rows + row) * rank + r]} * a.values[(e * rank + r) * cols + col];
          found->values[(e * rows + row) * cols + col] += static_cast<float>(scale * kAlpha / rank * sum);
        }
      }
    }
    parts.push_back(a);
    parts.push_back(b);
  }
  return parts;
}

class Lora : public testing::TestWithParam<const char*> {
 protected:
  std::string file() const { return std::string("models/") + GetParam() + ".gguf"; }
};

TEST_P(Lora, TwoAdaptersGiveTheLogitsOfAModelWithTheirProductsInItsMatrices) {
  const gguf::Reader base = open(file());
  const std::string architecture(base.metadata().string("general.architecture").value());
  std::vector<AddedTensor> merged;
  const AdapterFile four("lora_four", architecture, parts_of(base, 4, 0.02f, merged));
  const AdapterFile one("lora_one", architecture, parts_of(base, 1, -0.05f, merged));
  const EditedModel edited(fixture(file()), "merged", merged, [](gguf::Writer&) {});
  const std::vector<LoraFile> files = {{four.path(), 0.02f}, {one.path(), -0.05f}};
  const std::vector<LoraAdapter> adapters = open_lora_adapters(files, architecture).value();
  const Reference reference = read_reference(fixture(std::string("models/") + GetParam() + ".ref.json"));
  const std::span<const TokenId> tokens = std::span(reference.runs.front().tokens).first(40);
  for (const std::string& isa : isas()) {
    Model adapted(file(), 64, isa, 2, KvType::kF32, false, adapters), whole(edited.path(), 64, isa, 1);
    Model plain(file(), 64, isa, 1);
    const std::vector<float> logits = logits_of(adapted, tokens, kRowsMax);
    EXPECT_LE(nmse(logits, logits_of(whole, tokens, kRowsMax)), 1e-9) << isa;
    EXPECT_GE(nmse(logits, logits_of(plain, tokens, kRowsMax)), 1e-4) << isa << ": the adapters change something";
    expect_same_bytes(logits, logits_of(adapted, tokens, 3), "chunks of 3");
    expect_same_bytes(logits, logits_among_others(adapted, tokens), "among others");
  }
}

// Matrices of their own, of experts, and several in one tensor (q, k and v; gate and up).
INSTANTIATE_TEST_SUITE_P(Models, Lora, testing::Values("llama-bias", "llama-moe", "phi3", "qwen3"));

/// The tensor in blocks of 32 numbers of eight bits (Q8_0), and `values` as those have them.
std::vector<std::byte> in_eight_bits(AddedTensor& tensor) {
  std::vector<std::byte> bytes(tensor.values.size() / 32 * 34);
  constexpr float kScale = 1.0f / 64;
  const uint16_t half = float_to_half(kScale);
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    std::byte* block = bytes.data() + i / 32 * 34;
    if (i % 32 == 0) std::memcpy(block, &half, sizeof half);
    const auto number = static_cast<int8_t>(std::lround(tensor.values[i] / kScale));
    block[2 + i % 32] = static_cast<std::byte>(number);
    tensor.values[i] = static_cast<float>(number) * kScale;
  }
  return bytes;
}

// Of quantised parts, whose inputs are rounded. A GPU would stop here if their working memory had not been reserved.
TEST(LoraRank, ARankLargerThanAllRowsOfTheModelIsComputed) {
  constexpr int64_t kRank = 8192;
  const std::string file = "models/llama.gguf";
  AddedTensor parts[] = {random_tensor("blk.0.attn_q.weight.lora_a", {64, kRank}, 1),
                         random_tensor("blk.0.attn_q.weight.lora_b", {kRank, 128}, 2)};
  const auto path =
      std::filesystem::temp_directory_path() / ("lora_eight_bits." + std::to_string(::getpid()) + ".gguf");
  {
    auto writer = gguf::Writer::create(path);
    ASSERT_TRUE(writer.has_value());
    writer->set("general.type", {gguf::ValueType::kString, std::string_view("adapter")});
    writer->set("general.architecture", {gguf::ValueType::kString, std::string_view("llama")});
    writer->set("adapter.type", {gguf::ValueType::kString, std::string_view("lora")});
    writer->set("adapter.lora.alpha", {gguf::ValueType::kF32, double{kAlpha}});
    for (const AddedTensor& part : parts) writer->declare(part.name, TensorType::kQ8_0, part.shape);
    for (AddedTensor& part : parts) ASSERT_TRUE(writer->write(in_eight_bits(part)).has_value());
    ASSERT_TRUE(writer->finish().has_value());
  }
  const AdapterFile plain("lora_plain", "llama", {parts[0], parts[1]});
  const std::vector<LoraFile> files[] = {{{path.string(), 0.5f}}, {{plain.path(), 0.5f}}};
  const auto rounded = open_lora_adapters(files[0], "llama").value(),
             exact = open_lora_adapters(files[1], "llama").value();
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < kRowsMax; ++i) tokens.push_back(TokenId{i * 7 % 300});
  Model a(file, kRowsMax, "", 2, KvType::kF32, false, rounded), b(file, kRowsMax, "", 2, KvType::kF32, false, exact);
  const std::vector<float> logits = logits_of(a, tokens, kRowsMax);
  EXPECT_LE(nmse(logits, logits_of(b, tokens, kRowsMax)), 1e-3);
  expect_same_bytes(logits, logits_of(a, tokens, 50), "chunks of 50");
  std::filesystem::remove(path);
}

class LoraErrors : public testing::Test {
 protected:
  /// The error of opening the adapter, or of loading the model with it.
  std::string error_of(const std::string& path) {
    const std::vector<LoraFile> files = {{path, 1}};
    const auto adapters = open_lora_adapters(files, "llama");
    if (!adapters.has_value()) return adapters.error().text();
    const auto backend = make_cpu_backend({.threads = 1, .isa = "generic"}).value();
    const auto loaded = load_model(model_, *backend, {.context_tokens = 64, .adapters = *adapters});
    return loaded.has_value() ? "" : loaded.error().text();
  }
  std::string error_with(const std::vector<AddedTensor>& tensors, const std::string& architecture = "llama",
                         const std::string& type = "lora") {
    const AdapterFile file("lora_wrong", architecture, tensors, type);
    return error_of(file.path());
  }
  static AddedTensor part(const std::string& name, std::vector<int64_t> shape) {
    return random_tensor(name, std::move(shape), 1);
  }
  const gguf::Reader model_ = open("models/llama.gguf");
};

TEST_F(LoraErrors, WhatDoesNotFitIsNamed) {
  EXPECT_EQ(error_with({part("blk.0.attn_q.weight.lora_a", {64, 2}), part("blk.0.attn_q.weight.lora_b", {2, 128})}),
            "");
  EXPECT_THAT(error_with({part("blk.0.attn_q.weight.lora_a", {64, 2})}),
              testing::HasSubstr("tensor blk.0.attn_q.weight.lora_b is missing"));
  EXPECT_THAT(error_with({part("blk.0.attn_q.weight.lora_a", {64, 2}), part("blk.0.attn_q.weight.lora_b", {3, 64})}),
              testing::HasSubstr("are no product for a matrix of 64 columns, 128 rows"));
  EXPECT_THAT(error_with({part("blk.77.attn_q.weight.lora_a", {64, 2}), part("blk.77.attn_q.weight.lora_b", {2, 64})}),
              testing::HasSubstr("tensor blk.77.attn_q.weight.lora_a belongs to no matrix"));
  EXPECT_THAT(error_with({part("token_embd.weight.lora_a", {64, 2}), part("token_embd.weight.lora_b", {2, 316})}),
              testing::HasSubstr("token_embd.weight, whose rows are looked up"));
  EXPECT_THAT(error_with({part("blk.0.attn_norm.weight", {64})}), testing::HasSubstr("no part of a low-rank product"));
}

TEST_F(LoraErrors, OtherKindsOfFilesAreNamed) {
  EXPECT_THAT(error_with({}, "qwen2"), testing::HasSubstr("of architecture \"qwen2\", but the model's is \"llama\""));
  EXPECT_THAT(error_with({}, "llama", "control_vector"), testing::HasSubstr("of kind \"control_vector\""));
  EXPECT_THAT(error_of(fixture("models/llama.gguf").string()), testing::HasSubstr("is no LoRA adapter"));
  EXPECT_THAT(error_of("/nowhere.gguf"), testing::HasSubstr("/nowhere.gguf"));
}

}  // namespace
}  // namespace cairn
