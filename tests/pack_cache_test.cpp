#include "model/weights/pack_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "convert/quantize.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"

namespace cairn {
namespace {

class PackCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("cairn_pack_cache_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    model_ = folder_ / "model.gguf";
    packed_ = folder_ / "model.gguf.packed";
    const auto trained = std::filesystem::path(test_data()) / "trained/stories260K-f32.gguf";
    ASSERT_TRUE(convert::quantize_file(trained, model_, {.mix = convert::QuantizeMix::kQ8_0}).has_value());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Loads the model with the pack cache and returns the logits of a prompt. `mapped`: whether the cache had its
  // weights.
  std::vector<float> logits(bool& mapped, bool use_cache = true) const {
    const auto file = gguf::Reader::open(model_).value();
    const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
    model::PackCache cache(model_, file, backend->packed_format_id());
    mapped = !cache.find("output.weight").empty() || !cache.find("token_embd.weight").empty();
    const auto runner = model::load_model(file, *backend, {.pack_cache = use_cache ? &cache : nullptr}).value();
    cache::PagePool pool = cache::PagePool::create(*backend, runner->kv_layout(), std::vector<int32_t>(1, 1)).value();
    cache::PageTable pages;
    EXPECT_TRUE(pool.extend(pages, 5));
    const std::vector<TokenId> tokens = {TokenId{1}, TokenId{50}, TokenId{60}, TokenId{70}, TokenId{80}};
    const model::BatchSlice slice{SequenceId{}, 0, 5, 0, &pages, model::LogitsWanted::kAll};
    const auto view = runner->step({tokens, std::span(&slice, 1), &pool}).value();
    pool.release(pages);
    return {view.values.begin(), view.values.end()};
  }

  std::filesystem::path folder_, model_, packed_;
};

TEST_F(PackCacheTest, TheSecondStartMapsTheFileThatTheFirstWrote) {
  bool mapped = true;
  const std::vector<float> without = logits(mapped, false);
  EXPECT_FALSE(std::filesystem::exists(packed_));
  EXPECT_EQ(logits(mapped), without);
  EXPECT_FALSE(mapped);
  ASSERT_TRUE(std::filesystem::exists(packed_));
  const auto made = std::filesystem::last_write_time(packed_);
  EXPECT_EQ(logits(mapped), without);
  EXPECT_TRUE(mapped);
  EXPECT_EQ(std::filesystem::last_write_time(packed_), made);
}

TEST_F(PackCacheTest, IsRewrittenForAnotherModelOfTheSameName) {
  bool mapped = true;
  logits(mapped);
  // A model of the same shapes with other weights.
  const auto f16 = folder_ / "f16.gguf";
  ASSERT_TRUE(convert::quantize_file(std::filesystem::path(test_data()) / "trained/stories260K-f32.gguf", f16,
                                     {.mix = convert::QuantizeMix::kQ4_0})
                  .has_value());
  const auto time = std::filesystem::last_write_time(model_);
  ASSERT_TRUE(convert::quantize_file(f16, model_, {.mix = convert::QuantizeMix::kQ8_0}).has_value());
  std::filesystem::last_write_time(model_, time);
  const std::vector<float> without = logits(mapped, false);
  EXPECT_EQ(logits(mapped), without);
  EXPECT_FALSE(mapped);
  EXPECT_EQ(logits(mapped), without);
  EXPECT_TRUE(mapped);
}

TEST_F(PackCacheTest, IsRewrittenForATouchedFileAndForAnotherFormat) {
  bool mapped = true;
  logits(mapped);
  const auto file = gguf::Reader::open(model_).value();
  EXPECT_TRUE(model::PackCache(model_, file, "another format").find("output.weight").empty());
  std::filesystem::last_write_time(model_, std::filesystem::last_write_time(model_) + std::chrono::seconds(1));
  logits(mapped);
  EXPECT_FALSE(mapped);
}

TEST_F(PackCacheTest, ADamagedFileIsRewritten) {
  bool mapped = true;
  const std::vector<float> without = logits(mapped);
  const auto size = std::filesystem::file_size(packed_);
  for (const uintmax_t left : {size - 1, size / 2, uintmax_t{100}, uintmax_t{4}, uintmax_t{0}}) {
    std::filesystem::resize_file(packed_, left);
    EXPECT_EQ(logits(mapped), without) << left << " bytes left";
    EXPECT_FALSE(mapped) << left << " bytes left";
    EXPECT_EQ(logits(mapped), without);
    EXPECT_TRUE(mapped);
  }
}

TEST_F(PackCacheTest, AFlippedBitOfAWeightIsFoundAndMadeAgain) {
  bool mapped = true;
  const std::vector<float> without = logits(mapped);
  const auto size = std::filesystem::file_size(packed_);
  for (const uintmax_t from_end : {uintmax_t{1'000}, size / 3}) {
    {
      std::fstream file(packed_, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(size - from_end));
      const char byte = static_cast<char>(file.get() ^ 0x10);
      file.seekp(static_cast<std::streamoff>(size - from_end));
      file.put(byte);
    }
    EXPECT_EQ(logits(mapped), without);
    EXPECT_FALSE(mapped);
    EXPECT_EQ(logits(mapped), without);
    EXPECT_TRUE(mapped);
  }
}

TEST_F(PackCacheTest, ACopyOfAnotherSizeIsNotUsed) {
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const std::vector<std::byte> rows(16 * 34), wrong(16 * 34 + 1);
  kernels::HostMatrix matrix;
  matrix.type = TensorType::kQ8_0;
  matrix.rows = 16;
  matrix.cols = 32;
  matrix.data = rows.data();
  matrix.copy = wrong;
  EXPECT_NE(backend->load(matrix)->memory, nullptr);
}

// A device with memory of its own has no packed format: the host cannot read the packed copies.
TEST_F(PackCacheTest, ABackendWithoutAPackedFormatWritesNoFile) {
  const auto file = gguf::Reader::open(model_).value();
  model::PackCache cache(model_, file, "");
  cache.add("output.weight", std::make_shared<kernels::Buffer>());
  ASSERT_TRUE(cache.save().has_value());
  EXPECT_FALSE(std::filesystem::exists(packed_));
  EXPECT_TRUE(cache.find("output.weight").empty());
}

TEST_F(PackCacheTest, SavingInAMissingFolderIsAnError) {
  const auto file = gguf::Reader::open(model_).value();
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  model::PackCache cache(folder_ / "no such folder" / "model.gguf", file, backend->packed_format_id());
  // The packed copies work all the same.
  EXPECT_TRUE(model::load_model(file, *backend, {.pack_cache = &cache}).has_value());
  const auto saved = cache.save();
  ASSERT_FALSE(saved.has_value());
  EXPECT_EQ(saved.error().code, Code::kIo);
  EXPECT_NE(saved.error().message.find("no such folder"), std::string::npos);
}

}  // namespace
}  // namespace cairn
