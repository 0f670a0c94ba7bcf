// A decoder on several backends gives the logits of one, bit for bit where all compute alike.
#include "model/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cache/page_pool.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/embedder.h"
#include "model/model.h"

namespace cairn {
namespace {

gguf::Reader open_model(const std::string& name) {
  return gguf::Reader::open(std::filesystem::path(CAIRN_TEST_DATA) / "models" / (name + ".gguf")).value();
}

std::unique_ptr<Backend> processor() { return make_cpu_backend({.threads = 1, .isa = ""}).value(); }

int32_t layers_of(const gguf::Reader& file) {
  const std::string architecture(file.metadata().string("general.architecture").value());
  return static_cast<int32_t>(file.metadata().integer(architecture + ".block_count").value());
}

class PipelineTest : public testing::Test {
 protected:
  /// `earlier`: layers of each part before the last.
  ModelOptions options_with(const std::vector<int32_t>& earlier, KvType kv_type = KvType::kF32) {
    ModelOptions options{.context_tokens = 64, .kv_type = kv_type, .batch_tokens_max = 16, .logits_max = 16};
    for (const int32_t layers : earlier) {
      if (options.earlier.size() + 1 == backends_.size()) backends_.push_back(processor());
      options.earlier.push_back({backends_[options.earlier.size() + 1].get(), layers});
    }
    return options;
  }

  /// Logits, or hidden rows, of all positions: several rows at once, then single ones.
  std::vector<float> run(Runner& runner, LogitsWanted wanted) {
    const std::vector<int32_t> counts(runner.kv_layout().groups.size(), 2);
    std::vector<DeviceMemory*> devices;
    for (const auto& backend : backends_) devices.push_back(backend.get());
    PagePool pool = PagePool::create(devices, runner.kv_layout(), counts).value();
    PageTable pages;
    EXPECT_TRUE(pool.extend(pages, kTokens));
    std::vector<TokenId> tokens;
    for (int32_t i = 0; i < kTokens; ++i) tokens.push_back(TokenId{3 + i * 7 % 40});
    std::vector<float> all;
    for (int32_t at = 0; at < kTokens;) {
      const int32_t rows = at < 21 ? 7 : 1;
      const BatchSlice slice{SequenceId{}, 0, rows, at, &pages, wanted};
      const auto view = runner.step({std::span(tokens).subspan(at, rows), std::span(&slice, 1), &pool});
      EXPECT_TRUE(view.has_value()) << view.error().text();
      const std::span<const float> values = wanted == LogitsWanted::kAll ? view->values : view->hidden;
      all.insert(all.end(), values.begin(), values.end());
      at += rows;
    }
    return all;
  }

  static constexpr int32_t kTokens = 26;
  Backend& own() { return *backends_.front(); }
  std::vector<std::unique_ptr<Backend>> backends_ = [] {
    std::vector<std::unique_ptr<Backend>> own;
    own.push_back(processor());
    return own;
  }();
};

TEST_F(PipelineTest, LogitsAreThoseOfOneBackendWhereverItIsCut) {
  for (const char* name : {"llama", "llama-tied-llama3rope", "llama-moe", "gemma3", "olmo2-swa", "qwen3moe", "phi3",
                           "mistral3", "deepseek2", "deepseek32", "quant-llama-q4_k_m"}) {
    const gguf::Reader file = open_model(name);
    for (const KvType kv_type : {KvType::kF32, KvType::kF16}) {
      const auto whole = load_model(file, own(), options_with({}, kv_type)).value();
      const std::vector<float> expected = run(*whole, LogitsWanted::kAll);
      ASSERT_EQ(std::ssize(expected), kTokens * whole->vocabulary());
      for (int32_t count = 1; count < layers_of(file); ++count) {
        SCOPED_TRACE(fmt::format("{}, {} layers first", name, count));
        const auto split = load_model(file, own(), options_with({count}, kv_type));
        ASSERT_TRUE(split.has_value()) << split.error().text();
        const std::vector<float> logits = run(**split, LogitsWanted::kAll);
        ASSERT_EQ(logits.size(), expected.size());
        EXPECT_EQ(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)), 0);
      }
    }
  }
}

TEST_F(PipelineTest, OfManyPartsToo) {
  for (const char* name : {"gemma3", "deepseek32"}) {  // with windows and without; with an index
    const gguf::Reader file = open_model(name);
    const int32_t layers = layers_of(file);
    const auto whole = load_model(file, own(), options_with({}, KvType::kF16)).value();
    const std::vector<float> expected = run(*whole, LogitsWanted::kAll);
    const std::vector<int32_t> single(static_cast<size_t>(layers) - 1, 1);  // a backend for each layer
    for (const std::vector<int32_t>& parts : {single, {1, layers - 2}, {layers - 2, 1}}) {
      SCOPED_TRACE(fmt::format("{}, {} parts before the last", name, parts.size()));
      const auto split = load_model(file, own(), options_with(parts, KvType::kF16));
      ASSERT_TRUE(split.has_value()) << split.error().text();
      EXPECT_EQ(run(**split, LogitsWanted::kAll), expected);
    }
  }
}

TEST_F(PipelineTest, RowsBehindTheLastNormToo) {
  const gguf::Reader file = open_model("qwen3");
  const auto whole = load_model(file, own(), options_with({})).value();
  const auto split = load_model(file, own(), options_with({1})).value();
  EXPECT_EQ(split->embedding().dimensions, whole->embedding().dimensions);
  const std::vector<float> expected = run(*whole, LogitsWanted::kHiddenAll);
  EXPECT_EQ(std::ssize(expected), kTokens * whole->embedding().dimensions);
  EXPECT_EQ(run(*split, LogitsWanted::kHiddenAll), expected);
}

TEST_F(PipelineTest, EachPartHasItsOwnWeightsAndPages) {
  const gguf::Reader file = open_model("gemma3");  // with windows and without
  const int32_t layers = layers_of(file);
  constexpr int32_t kFirst = device_of_part(0);
  const auto whole = model_memory_plan(file, own(), options_with({})).value();
  EXPECT_TRUE(whole.earlier.empty());
  EXPECT_EQ(whole.kv_layout.token_bytes(kFirst), 0);
  const auto one = model_memory_plan(file, own(), options_with({1})).value();
  const auto most = model_memory_plan(file, own(), options_with({layers - 1})).value();
  for (const auto& plan : {one, most}) {
    // The embedding is the output too, so both have it.
    EXPECT_GT(plan.weight_bytes + plan.earlier[0].weight_bytes, whole.weight_bytes);
    EXPECT_LT(plan.weight_bytes, whole.weight_bytes);
    EXPECT_EQ(plan.kv_layout.token_bytes(0) + plan.kv_layout.token_bytes(kFirst), whole.kv_layout.token_bytes());
    EXPECT_GT(plan.earlier[0].scratch_bytes, 0);
  }
  EXPECT_GT(one.weight_bytes, most.weight_bytes);
  EXPECT_LT(one.earlier[0].weight_bytes, most.earlier[0].weight_bytes);
  EXPECT_EQ(one.kv_layout.token_bytes(kFirst) * layers, whole.kv_layout.token_bytes());
}

TEST_F(PipelineTest, WhatCannotBeCutIsRefused) {
  const gguf::Reader llama = open_model("llama");
  for (const int32_t count : {-1, 0, layers_of(llama), 99}) {
    const auto refused = load_model(llama, own(), options_with({count}));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, testing::HasSubstr(std::to_string(count)));
  }
  const auto many = load_model(llama, own(), options_with(std::vector(kEarlierPartsMax + 1, 1)));
  ASSERT_FALSE(many.has_value());
  EXPECT_THAT(many.error().message, testing::HasSubstr("10 devices"));
  const gguf::Reader flash = open_model("deepseek4"), bert = open_model("bert");
  for (const Error& error :
       {load_model(flash, own(), options_with({1})).error(), load_embedder(bert, own(), options_with({1})).error()}) {
    EXPECT_EQ(error.code, Code::kUnsupported);
    EXPECT_THAT(error.message, testing::HasSubstr("cannot be split"));
  }
}

}  // namespace
}  // namespace cairn
