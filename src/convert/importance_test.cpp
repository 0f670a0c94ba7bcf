#include "convert/importance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "gguf/writer.h"

namespace cairn::convert {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::filesystem::path path(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / ("cairn_importance_" + std::to_string(::getpid()) + name);
}

// The older form, byte by byte.
class OlderFile {
 public:
  OlderFile& number(int32_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  OlderFile& text(const std::string& value) {
    number(static_cast<int32_t>(value.size()));
    bytes_ += value;
    return *this;
  }
  OlderFile& values(const std::vector<float>& all) {
    number(static_cast<int32_t>(all.size()));
    bytes_.append(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(float));
    return *this;
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

gguf::Tensor tensor(std::string_view name, std::vector<int64_t> shape) {
  return {.name = name, .type = TensorType::kF32, .shape = std::move(shape), .bytes = {}};
}

ImportanceMatrix experts() {
  ImportanceMatrix matrix{.datasets = {"a.txt"}, .chunks = 3, .chunk_tokens = 8, .entries = {}};
  matrix.entries["blk.0.ffn_up_exps.weight"] = {.sums = {2, 4, 0, 0, 6, 18}, .counts = {2, 0, 6}};
  matrix.entries["blk.0.attn_q.weight"] = {.sums = {10, 30}, .counts = {10}};
  return matrix;
}

TEST(Importance, WhatIsWrittenIsReadAgain) {
  const auto file = path("written.gguf");
  ASSERT_TRUE(experts().write(file).has_value());
  const auto read = ImportanceMatrix::open(file);
  ASSERT_TRUE(read.has_value()) << read.error().text();
  EXPECT_THAT(read->datasets, ElementsAre("a.txt"));
  EXPECT_EQ(read->chunks, 3);
  EXPECT_EQ(read->chunk_tokens, 8);
  EXPECT_EQ(read->entries.size(), 2u);
  const ImportanceEntry& entry = read->entries.at("blk.0.ffn_up_exps.weight");
  EXPECT_THAT(entry.sums, ElementsAre(2, 4, 0, 0, 6, 18));
  EXPECT_THAT(entry.counts, ElementsAre(2, 0, 6));
  const auto reader = gguf::Reader::open(file);
  EXPECT_EQ(reader->metadata().string("general.type").value_or(""), "imatrix");
  EXPECT_THAT(reader->find_tensor("blk.0.ffn_up_exps.weight.counts")->shape, ElementsAre(1, 3));
  EXPECT_THAT(reader->find_tensor("blk.0.ffn_up_exps.weight.in_sum2")->shape, ElementsAre(2, 3));
  std::filesystem::remove(file);
}

TEST(Importance, ExpertsThatNoInputReachedHaveTheMeanOfAllOthers) {
  const auto importance = experts().of(tensor("blk.0.ffn_up_exps.weight", {2, 5, 3}));
  ASSERT_TRUE(importance.has_value()) << importance.error().text();
  EXPECT_THAT(importance->means, ElementsAre(1, 2, 1, 22.0F / 8, 1, 3));
  EXPECT_THAT(importance->unreached, ElementsAre(1));
  EXPECT_TRUE(experts().of(tensor("blk.7.ffn_up_exps.weight", {2, 5, 3}))->means.empty());
  const auto other = experts().of(tensor("blk.0.attn_q.weight", {4, 4}));
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().text(), HasSubstr("of another model"));
}

TEST(Importance, TheOlderFormIsReadWithAndWithoutItsEnd) {
  OlderFile file;
  file.number(1).text("blk.0.attn_q.weight").number(5).values({10, 20});
  const auto bare = ImportanceMatrix::from_bytes(file.bytes());
  ASSERT_TRUE(bare.has_value()) << bare.error().text();
  EXPECT_THAT(bare->of(tensor("blk.0.attn_q.weight", {2, 9}))->means, ElementsAre(2, 4));
  file.number(5).text("wiki.txt");
  const auto whole = ImportanceMatrix::from_bytes(file.bytes());
  ASSERT_TRUE(whole.has_value()) << whole.error().text();
  EXPECT_EQ(whole->chunks, 5);
  EXPECT_THAT(whole->datasets, ElementsAre("wiki.txt"));
}

TEST(Importance, MatricesAddUpAndChunksOfTheOlderFormWeighAsMuchAsTokens) {
  ImportanceMatrix matrix = experts();
  ASSERT_TRUE(matrix.add(experts()).has_value());
  EXPECT_THAT(matrix.entries.at("blk.0.attn_q.weight").sums, ElementsAre(20, 60));
  EXPECT_THAT(matrix.entries.at("blk.0.attn_q.weight").counts, ElementsAre(20));
  EXPECT_EQ(matrix.chunks, 6);
  OlderFile file;
  file.number(1).text("blk.0.attn_q.weight").number(5).values({10, 20});
  ASSERT_TRUE(matrix.add(ImportanceMatrix::from_bytes(file.bytes()).value()).has_value());
  EXPECT_THAT(matrix.entries.at("blk.0.attn_q.weight").counts, ElementsAre(20 + 5 * 8));
  EXPECT_THAT(matrix.entries.at("blk.0.attn_q.weight").sums, ElementsAre(20 + 10 * 8, 60 + 20 * 8));
  ImportanceMatrix other = experts();
  other.entries["blk.0.attn_q.weight"].sums.push_back(1);
  EXPECT_THAT(matrix.add(other).error().text(), HasSubstr("different models"));
}

TEST(Importance, DamagedFilesGetAnErrorThatSaysWhere) {
  const auto error_of = [](const OlderFile& file) {
    const auto read = ImportanceMatrix::from_bytes(file.bytes());
    return read.has_value() ? std::string("none") : read.error().text();
  };
  EXPECT_THAT(error_of(OlderFile().number(1).text("x").number(5).number(1'000'000)), HasSubstr("cut short"));
  EXPECT_THAT(error_of(OlderFile().number(-1)), HasSubstr("the number of entries is -1"));
  EXPECT_THAT(error_of(OlderFile().number(0)), HasSubstr("no entries"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(error_of(OlderFile().number(1).text("x").number(5).values({nan})), HasSubstr("entry x"));
  EXPECT_THAT(error_of(OlderFile().number(1).text("x").number(5).values({-1})), HasSubstr("not negative"));
  EXPECT_THAT(error_of(OlderFile().number(2).text("x").number(5).values({1}).text("x").number(5).values({1})),
              HasSubstr("twice"));
  // A model's file, and an entry of which the counts are missing.
  const auto file = path("damaged.gguf");
  for (const bool is_model : {true, false}) {
    auto writer = gguf::Writer::create(file).value();
    writer.set("general.type", is_model ? "model" : "imatrix");
    const int64_t shape[] = {8};
    writer.declare("x.in_sum2", TensorType::kF32, shape);
    const std::vector<float> data(8, 1.0F);
    ASSERT_TRUE(writer.write(std::as_bytes(std::span(data))).has_value());
    ASSERT_TRUE(writer.finish().has_value());
    EXPECT_THAT(ImportanceMatrix::open(file).error().text(),
                HasSubstr(is_model ? "is no importance matrix" : "8 sums with 0 counts"));
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace cairn::convert
