#include "loader/layer_division.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <string>

#include "base/testing/test_data.h"
#include "gguf/writer.h"

namespace cairn::loader {
namespace {

using Counts = std::vector<int32_t>;

TEST(LayerDivision, FollowsFreeMemory) {
  const LayerBytes bytes{.layers = std::vector<int64_t>(32, 100)};
  EXPECT_EQ(divide_layers(bytes, 32, {{5}}), Counts{32});
  EXPECT_EQ(divide_layers(bytes, 32, {{80, 80}}), (Counts{16, 16}));
  EXPECT_EQ(divide_layers(bytes, 32, {{24, 8}}), (Counts{24, 8}));
  EXPECT_EQ(divide_layers(bytes, 16, {{10, 20, 10}}), (Counts{4, 8, 4}));
  constexpr int64_t kGib = 1 << 30;
  const LayerBytes large{.layers = std::vector<int64_t>(80, kGib / 2), .embedding = kGib, .output = kGib};
  EXPECT_EQ(divide_layers(large, 80, {{24 * kGib, 80 * kGib}}), (Counts{17, 63}));
}

TEST(LayerDivision, EmbeddingAndOutputHaveTheirWeight) {
  const LayerBytes bytes{.layers = std::vector<int64_t>(8, 100), .embedding = 400, .output = 200};
  EXPECT_EQ(divide_layers(bytes, 8, {{10, 10}}), (Counts{3, 5}));
  // With fewer layers the embedding is elsewhere.
  EXPECT_EQ(divide_layers(bytes, 6, {{10, 10}}), (Counts{4, 2}));
}

TEST(LayerDivision, EachDeviceHasOneLayerAtLeast) {
  const LayerBytes bytes{.layers = {1, 1, 1, 1000}};
  EXPECT_EQ(divide_layers(bytes, 4, {{1, 1, 1, 1}}), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(divide_layers(bytes, 4, {{1'000'000, 1}}), (Counts{3, 1}));
  EXPECT_EQ(divide_layers(bytes, 4, {{0, 1'000'000}}), (Counts{1, 3}));
  EXPECT_EQ(divide_layers(bytes, 4, {{0, 0}}).size(), 2u) << "no memory anywhere: an error of others";
}

TEST(LayerDivision, ReadsTheFile) {
  const auto models = std::filesystem::path(test_data()) / "models";
  const auto llama = gguf::Reader::open(models / "llama.gguf").value();
  const LayerBytes bytes = layer_bytes(llama).value();
  ASSERT_EQ(std::ssize(bytes.layers), llama.metadata().integer("llama.block_count").value());
  int64_t all = 0;
  for (const auto& tensor : llama.tensors()) all += std::ssize(tensor.bytes);
  EXPECT_EQ(std::accumulate(bytes.layers.begin(), bytes.layers.end(), bytes.embedding + bytes.output), all);
  EXPECT_GT(bytes.layers.front(), 0);
  EXPECT_GT(bytes.output, 0);
  // One matrix for both, which two devices have.
  const auto tied = gguf::Reader::open(models / "llama-tied-llama3rope.gguf").value();
  const LayerBytes of_tied = layer_bytes(tied).value();
  EXPECT_GT(of_tied.embedding, 0);
  EXPECT_GE(of_tied.output, of_tied.embedding);
}

TEST(LayerDivision, ATableOfInputsPerLayerIsOnNoDevice) {
  const auto path = std::filesystem::path(test_data()) / "models" / "gemma4.gguf";
  const auto file = gguf::Reader::open(path).value();
  const LayerBytes bytes = layer_bytes(file).value();
  int64_t output = 0;
  for (const char* name : {"token_embd", "output_norm", "rope_freqs", "per_layer_model_proj", "per_layer_proj_norm"}) {
    output += std::ssize(file.find_tensor(fmt::format("{}.weight", name))->bytes);
  }
  EXPECT_EQ(bytes.output, output);
}

TEST(LayerDivision, RefusesANumberOfLayersThatCannotBe) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("cairn_layers.{}.gguf", ::getpid());
  for (const int64_t layers : {int64_t{-1}, int64_t{0}, int64_t{1} << 40}) {
    auto writer = gguf::Writer::create(path);
    ASSERT_TRUE(writer.has_value());
    writer->set("general.architecture", "llama");
    writer->set_integer("llama.block_count", gguf::ValueType::kI64, layers);
    ASSERT_TRUE(writer->finish().has_value());
    const auto file = gguf::Reader::open(path);
    ASSERT_TRUE(file.has_value()) << file.error().text();
    const auto bytes = layer_bytes(*file);
    ASSERT_FALSE(bytes.has_value());
    EXPECT_EQ(bytes.error().code, Code::kCorruptFile);
    EXPECT_NE(bytes.error().message.find(std::to_string(layers)), std::string::npos) << bytes.error().message;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace cairn::loader
