#include "loader/proposals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/testing/test_data.h"

namespace cairn::loader {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kGB = 1'000'000'000;

std::set<std::string_view> names(const std::vector<Proposal>& all) {
  std::set<std::string_view> names;
  for (const Proposal& each : all) names.insert(each.model.name);
  return names;
}

TEST(Fit, LeavesRoomForEverythingElse) {
  EXPECT_EQ(fit_of(6 * kGiB, 8 * kGiB), Fit::kYes);
  EXPECT_EQ(fit_of(6 * kGiB + 1, 8 * kGiB), Fit::kTight);
  EXPECT_EQ(fit_of(8 * kGiB, 8 * kGiB), Fit::kNo);
  EXPECT_EQ(missing_bytes(6 * kGiB, 8 * kGiB), 0);
  EXPECT_EQ(missing_bytes(9 * kGiB, 8 * kGiB), kGiB + (int64_t{256} << 20));
  EXPECT_EQ(fit_name(Fit::kTight), "tight");
}

int64_t weight_bytes(const gguf::Reader& file) {
  int64_t all = 0;
  for (const gguf::Tensor& tensor : file.tensors()) all += std::ssize(tensor.bytes);
  return all;
}

TEST(Fit, OfAFileIsToldFromItsHeader) {
  const auto file = gguf::Reader::open(test_data("/trained/stories260K-f32.gguf"));
  ASSERT_TRUE(file.has_value());
  const auto bytes = conversation_bytes(*file);
  ASSERT_TRUE(bytes.has_value()) << bytes.error().text();
  EXPECT_GT(*bytes, file->file_bytes() / 2);
  EXPECT_LT(*bytes, 64 << 20);
}

TEST(Fit, WhatIsReadForATokenLeavesOutTablesAndExpertsThatAreNotUsed) {
  const auto file = gguf::Reader::open(test_data("/trained/stories260K-f32.gguf"));
  ASSERT_TRUE(file.has_value());
  const gguf::Tensor* const table = file->find_tensor("token_embd.weight");
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(bytes_read_per_token(*file), weight_bytes(*file) - std::ssize(table->bytes));
  // Its output is the embedding of tokens.
  const auto tied = gguf::Reader::open(test_data("/models/gemma3.gguf"));
  ASSERT_TRUE(tied.has_value());
  EXPECT_EQ(bytes_read_per_token(*tied), weight_bytes(*tied));
  const auto experts = gguf::Reader::open(test_data("/models/qwen3moe.gguf"));
  ASSERT_TRUE(experts.has_value());
  EXPECT_LT(bytes_read_per_token(*experts), weight_bytes(*experts) * 3 / 4);
  EXPECT_GT(bytes_read_per_token(*experts), weight_bytes(*experts) / 8);
}

TEST(Proposals, TheTableGoesFromTheLeastToTheMostCapableAndItsFiguresAgree) {
  std::set<std::string_view> seen;
  for (const KnownModel& model : known_models()) {
    EXPECT_TRUE(seen.insert(model.name).second) << model.name;
    EXPECT_GT(model.memory_bytes, model.file_bytes / 2) << model.name;
    EXPECT_GT(model.read_per_token, 0) << model.name;
    EXPECT_LE(model.read_per_token, model.file_bytes) << model.name;
    EXPECT_FALSE(model.good_for.empty()) << model.name;
  }
  EXPECT_GE(seen.size(), 10U);
  EXPECT_LE(seen.size(), 15U);
}

TEST(Proposals, FourThatFitComfortablyAndDifferAreChosenForEveryUsualMachine) {
  for (const int64_t gib : {6, 8, 12, 16, 24, 32, 48, 64, 128, 256}) {
    const auto chosen = proposals(gib * kGiB, 40 * kGB);
    ASSERT_EQ(chosen.size(), kProposalsMax) << gib;
    EXPECT_EQ(names(chosen).size(), kProposalsMax) << gib;
    int64_t most = 0, least = chosen.front().model.memory_bytes;
    for (const Proposal& each : chosen) {
      EXPECT_EQ(each.fit, Fit::kYes) << gib;
      EXPECT_LE(each.model.memory_bytes + kComfortBytes, gib * kGiB) << gib;
      EXPECT_NEAR(each.tokens_per_second, 40e9 / static_cast<double>(each.model.read_per_token), 1e-6);
      most = std::max(most, each.model.memory_bytes);
      least = std::min(least, each.model.memory_bytes);
    }
    EXPECT_LE(least * 2, most) << gib;
  }
}

TEST(Proposals, MoreMemoryNeverBringsALessCapableFirstOne) {
  ptrdiff_t before = 0;
  for (int64_t gib = 4; gib <= 256; gib += 2) {
    const auto chosen = proposals(gib * kGiB, 0);
    ASSERT_FALSE(chosen.empty()) << gib;
    EXPECT_EQ(chosen.front().tokens_per_second, 0);
    const auto at = std::ranges::find(known_models(), chosen.front().model.name, &KnownModel::name);
    EXPECT_GE(at - known_models().begin(), before) << gib;
    before = at - known_models().begin();
  }
  EXPECT_EQ(before + 1, std::ssize(known_models()));
}

TEST(Proposals, SlowMemoryPutsModelsThatKeepUpWithReadingFirst) {
  const auto fast = proposals(16 * kGiB, 200 * kGB);
  const auto slow = proposals(16 * kGiB, 8 * kGB);
  EXPECT_GE(slow.front().tokens_per_second, kReadingSpeed);
  EXPECT_GT(fast.front().model.read_per_token, slow.front().model.read_per_token);
  const auto late = std::ranges::adjacent_find(slow, [](const Proposal& a, const Proposal& b) {
    return a.tokens_per_second < kReadingSpeed && b.tokens_per_second >= kReadingSpeed;
  });
  EXPECT_EQ(late, slow.end());
}

TEST(Proposals, WithLittleMemoryTheyFitTightlyAndWithLessThereIsNone) {
  const KnownModel& smallest = known_models().front();
  const auto tight = proposals(smallest.memory_bytes + kGiB, 0);
  ASSERT_FALSE(tight.empty());
  for (const Proposal& each : tight) EXPECT_EQ(each.fit, Fit::kTight);
  EXPECT_TRUE(proposals(smallest.memory_bytes / 2, 40 * kGB).empty());
  EXPECT_TRUE(proposals(0, 0).empty());
}

TEST(Proposals, TheLargestClassFollowsTheMemory) {
  EXPECT_LT(largest_class(0, 0).billions, 1);
  EXPECT_LT(largest_class(kGiB, kGB).billions, 1);
  const LargestClass of16 = largest_class(16 * kGiB, 40 * kGB);
  EXPECT_NEAR(of16.billions, 20, 1);
  EXPECT_NEAR(of16.tokens_per_second, 40 / (of16.billions * 0.61), 0.2);
  EXPECT_EQ(largest_class(16 * kGiB, 0).tokens_per_second, 0);
  EXPECT_FALSE(largest_mixture(4 * kGiB, kGB).has_value());
  const auto mixture = largest_mixture(32 * kGiB, 40 * kGB);
  ASSERT_TRUE(mixture.has_value());
  EXPECT_TRUE(mixture->model.name.contains("A3B")) << mixture->model.name;
}

}  // namespace
}  // namespace cairn::loader
