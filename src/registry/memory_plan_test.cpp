#include "registry/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn {
namespace {

constexpr int64_t kMib = 1 << 20;

/// 1 MiB per page of 32 tokens.
ModelMemoryPlan model_of(int32_t context_tokens) {
  ModelMemoryPlan model;
  model.weight_bytes = 1000 * kMib;
  model.scratch_bytes = 24 * kMib;
  model.kv_layout.type = KvType::kF32;
  model.kv_layout.groups = {{KvKind::kFull, 0, {{8, 512, 512}}}};
  model.context_tokens = context_tokens;
  return model;
}
constexpr int64_t kFixed = 1024 * kMib + kReservedBytes;

TEST(MemoryPlan, GivesWholeContextsWhenThereIsRoom) {
  const auto plan = plan_memory(model_of(4096), {}, kFixed + 10'000 * kMib);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->context_tokens, 4096);
  EXPECT_EQ(plan->kv_pages, 4 * 128);
  EXPECT_EQ(plan->kv_bytes, 512 * kMib);
}

TEST(MemoryPlan, ShrinksWhatWasNotAskedFor) {
  const auto plan = plan_memory(model_of(131'072), {}, kFixed + 100 * kMib);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->kv_pages, 100);
  EXPECT_EQ(plan->context_tokens, 3200);
}

TEST(MemoryPlan, RefusesWhatWasAskedForAndDoesNotFitWithEveryFigure) {
  const auto plan = plan_memory(model_of(131'072), {.context_tokens = 131'072}, kFixed + 100 * kMib);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, Code::kOutOfMemory);
  for (const auto* part :
       {"weights 1000.0 MiB", "scratch 24.0 MiB", "KV cache 4.0 GiB", "5.2 GiB needed", "1.3 GiB available"}) {
    EXPECT_THAT(plan.error().message, testing::HasSubstr(part));
  }
  EXPECT_FALSE(plan_memory(model_of(4096), {}, kFixed - 1).has_value());
  EXPECT_FALSE(plan_memory(model_of(4096), {}, kFixed + 15 * kMib).has_value());  // under kContextTokensMin
}

TEST(MemoryPlan, HonoursTheBudgetAsked) {
  const auto plan = plan_memory(model_of(4096), {.kv_bytes = 64 * kMib}, kFixed + 100 * kMib);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->kv_pages, 64);
  EXPECT_EQ(plan->context_tokens, 2048);  // no conversation can be longer than all pages
  EXPECT_FALSE(plan_memory(model_of(4096), {.kv_bytes = 200 * kMib}, kFixed + 100 * kMib).has_value());
  EXPECT_EQ(plan_memory(model_of(4096), {.kv_bytes = 5}, kFixed).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace cairn
