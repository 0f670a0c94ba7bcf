#include "model/control_vectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"

namespace cairn::model {
namespace {

constexpr int64_t kLayers = 3, kEmbedding = 37;

class DirectionsTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::string write(const std::vector<float>& values) const {
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
    return path_;
  }
  // A direction of length 1 for each layer, all different.
  static std::vector<float> unit_directions(int64_t layers, int64_t embedding) {
    std::vector<float> values(static_cast<size_t>(layers * embedding));
    for (int64_t layer = 0; layer < layers; ++layer) {
      double length = 0;
      for (int64_t i = 0; i < embedding; ++i) {
        const double value = std::sin(static_cast<double>((layer + 1) * (i + 2)));
        values[layer * embedding + i] = static_cast<float>(value);
        length += value * value;
      }
      for (int64_t i = 0; i < embedding; ++i) values[layer * embedding + i] /= static_cast<float>(std::sqrt(length));
    }
    return values;
  }

  const std::string path_ =
      std::filesystem::temp_directory_path() /
      ("cairn_directions_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  const std::unique_ptr<kernels::Backend> backend_ = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
};

TEST_F(DirectionsTest, WhatIsLeftHasNothingOfTheLayersDirection) {
  const std::vector<float> values = unit_directions(kLayers, kEmbedding);
  const auto directions = ControlVectors::load({.file = write(values), .attention = 0.5F, .feed_forward = 1}, kLayers,
                                               kEmbedding, *backend_);
  ASSERT_TRUE(directions.has_value()) << directions.error().text();
  constexpr int64_t kRows = 4;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    std::vector<float> x(kRows * kEmbedding);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<float>(i * i));
    const std::vector<float> before = x;
    const auto part = [&](const std::vector<float>& rows, int64_t row) {
      double dot = 0;
      for (int64_t i = 0; i < kEmbedding; ++i) {
        dot += double{rows[row * kEmbedding + i]} * values[layer * kEmbedding + i];
      }
      return dot;
    };
    directions->after_attention(*backend_, layer, x.data(), kRows);
    for (int64_t row = 0; row < kRows; ++row) EXPECT_NEAR(part(x, row), part(before, row) / 2, 1e-5);
    directions->after_feed_forward(*backend_, layer, x.data(), kRows);
    for (int64_t row = 0; row < kRows; ++row) EXPECT_NEAR(part(x, row), 0, 1e-5);
  }
}

TEST_F(DirectionsTest, FilesThatDoNotFitAreNamedWithBothSizes) {
  const auto short_one = ControlVectors::load({.file = write({1, 2, 3})}, kLayers, kEmbedding, *backend_);
  ASSERT_FALSE(short_one.has_value());
  EXPECT_EQ(short_one.error().code, Code::kInvalidArgument);
  EXPECT_NE(short_one.error().text().find("12 bytes"), std::string::npos) << short_one.error().text();
  EXPECT_NE(short_one.error().text().find("444"), std::string::npos) << short_one.error().text();
  std::vector<float> broken = unit_directions(kLayers, kEmbedding);
  broken[2 * kEmbedding + 5] = std::numeric_limits<float>::quiet_NaN();
  const auto nan = ControlVectors::load({.file = write(broken)}, kLayers, kEmbedding, *backend_);
  ASSERT_FALSE(nan.has_value());
  EXPECT_NE(nan.error().text().find("number 5 of layer 2"), std::string::npos) << nan.error().text();
  EXPECT_EQ(ControlVectors::load({.file = path_ + ".none"}, kLayers, kEmbedding, *backend_).error().code,
            Code::kNotFound);
}

// In every kind of model: a scale of 0 changes no byte, another one changes the logits.
TEST_F(DirectionsTest, ModelsAreSteered) {
  for (const char* name : {"llama.gguf", "deepseek4.gguf"}) {
    SCOPED_TRACE(name);
    const auto file = gguf::Reader::open(std::filesystem::path(test_data()) / "models" / name).value();
    const auto logits = [&](const ControlVectorOptions& options) {
      const auto runner =
          load_model(file, *backend_, {.context_tokens = 64, .batch_tokens_max = 8, .control_vectors = options})
              .value();
      cache::PagePool pool = cache::PagePool::create(*backend_, runner->kv_layout(),
                                                     std::vector<int32_t>(runner->kv_layout().groups.size(), 1))
                                 .value();
      cache::PageTable pages;
      EXPECT_TRUE(pool.extend(pages, 5));
      const std::vector<TokenId> tokens(5, TokenId{7});
      const BatchSlice slice{SequenceId{}, 0, 5, 0, &pages, LogitsWanted::kLast};
      const auto view = runner->step({tokens, std::span(&slice, 1), &pool}).value();
      return std::vector<float>(view.values.begin(), view.values.end());
    };
    const int64_t embedding = file.find_tensor("token_embd.weight")->shape[0];
    const auto layers =
        file.metadata().integer(std::string(file.metadata().string("general.architecture").value()) + ".block_count");
    const std::string path = write(unit_directions(layers.value(), embedding));
    const std::vector<float> plain = logits({});
    EXPECT_EQ(logits({.file = path, .attention = 0, .feed_forward = 0}), plain);
    EXPECT_NE(logits({.file = path, .attention = 1, .feed_forward = 0}), plain);
    EXPECT_NE(logits({.file = path, .attention = 0, .feed_forward = 1}), plain);
  }
}

}  // namespace
}  // namespace cairn::model
