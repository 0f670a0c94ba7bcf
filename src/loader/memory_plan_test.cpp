#include "loader/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace cairn::loader {
namespace {

constexpr int64_t kMib = 1 << 20;

/// 1 MiB per page of 32 tokens.
model::ModelMemory model_of(int32_t context_tokens) {
  model::ModelMemory model;
  model.stages = {{.weight_bytes = 1000 * kMib, .scratch_bytes = 24 * kMib}};
  model.kv_layout.type = kernels::KvType::kF32;
  model.kv_layout.groups = {{cache::KvKind::kFull, 0, {{8, 512, 512}}, 0}};
  model.context_tokens = context_tokens;
  return model;
}
/// With room for the cache of some pages.
constexpr int64_t kFixed = 1024 * kMib + kReservedBytes + kMib / 2;

TEST(MemoryPlan, GivesWholeContextsWhenThereIsRoom) {
  const auto plan = plan_memory(model_of(4096), {}, kFixed + 10'000 * kMib);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->context_tokens, 4096);
  EXPECT_EQ(plan->kv_pages, std::vector<int32_t>{4 * 128});
  EXPECT_EQ(plan->stages[0].kv_bytes, 512 * kMib);
}

TEST(MemoryPlan, ShrinksWhatWasNotAskedFor) {
  const auto plan = plan_memory(model_of(131'072), {}, kFixed + 100 * kMib);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->kv_pages, std::vector<int32_t>{100});
  EXPECT_EQ(plan->context_tokens, 3200);
  EXPECT_FALSE(plan->whole_context);
  EXPECT_TRUE(plan_memory(model_of(3200), {}, kFixed + 100 * kMib)->whole_context);
}

TEST(MemoryPlan, RefusesWhatWasAskedForAndDoesNotFitWithEveryFigure) {
  const auto plan = plan_memory(model_of(131'072), {.context_tokens = 131'072}, kFixed + 100 * kMib);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, Code::kOutOfMemory);
  for (const auto* part :
       {"weights 1000.0 MiB", "scratch 24.0 MiB", "KV cache 4.0 GiB", "5.3 GiB needed", "1.3 GiB available"}) {
    EXPECT_THAT(plan.error().message, testing::HasSubstr(part));
  }
  EXPECT_FALSE(plan_memory(model_of(4096), {}, kFixed - kMib).has_value());
  EXPECT_FALSE(plan_memory(model_of(4096), {}, kFixed + 15 * kMib).has_value());  // under kContextTokensMin
}

TEST(MemoryPlan, HonoursTheBudgetAsked) {
  const auto plan = plan_memory(model_of(4096), {.kv_bytes = 64 * kMib}, kFixed + 100 * kMib);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->kv_pages, std::vector<int32_t>{64});
  EXPECT_EQ(plan->context_tokens, 2048);  // no conversation can be longer than all pages
  EXPECT_FALSE(plan_memory(model_of(4096), {.kv_bytes = 200 * kMib}, kFixed + 100 * kMib).has_value());
  EXPECT_EQ(plan_memory(model_of(4096), {.kv_bytes = 5}, kFixed).error().code, Code::kInvalidArgument);
}

TEST(MemoryPlan, SaysWhatWasPlanned) {
  const auto plan = plan_memory(model_of(4096), {}, kFixed + 10'000 * kMib);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->stages[0].text(),
            "weights 1000.0 MiB, KV cache 512.0 MiB (16384 tokens), its index 248.2 KiB, scratch 24.0 MiB; 11.0 GiB "
            "available");
  EXPECT_EQ(plan->bytes(), 1536 * kMib + plan->stages[0].index_bytes);
}

cache::KvGroup window_of(int32_t window) { return {cache::KvKind::kWindow, window, {{8, 512, 512}}, 0}; }

TEST(MemoryPlan, WindowGroupsGetWhatWindowsNeed) {
  model::ModelMemory model = model_of(8192);
  model.kv_layout.groups.push_back(window_of(1000));
  const MemoryRequest request{.kv_bytes = 1200 * kMib, .sequences_running = 2, .step_rows = 100};
  const auto plan = plan_memory(model, request, kFixed + 10'000 * kMib);
  ASSERT_TRUE(plan.has_value());
  const int64_t full = plan->kv_pages[0], window = plan->kv_pages[1];
  EXPECT_EQ(window, 2 * (32 + kWindowPagesExtra) + 4 + full / kWindowPagesKept);
  EXPECT_EQ(plan->stages[0].window_sequences, 2);
  EXPECT_THAT(plan->stages[0].text(), testing::HasSubstr("tokens, windows of 2 sequences)"));
  EXPECT_EQ(plan->stages[0].kv_bytes, (full + window) * kMib);
  EXPECT_LE(plan->stages[0].kv_bytes, 1200 * kMib);
  EXPECT_GT(plan->stages[0].kv_bytes, (1200 - 2) * kMib) << "the budget is used";
  EXPECT_EQ(plan->context_tokens, 8192);

  model.kv_layout.groups[1] = window_of(100'000);
  const auto wide = plan_memory(model, request, kFixed + 10'000 * kMib);
  ASSERT_TRUE(wide.has_value());
  EXPECT_EQ(wide->kv_pages, (std::vector<int32_t>{600, 600})) << "never more than a full group has";
}

// Eight times as large a page as a full one, as what compressed rows are made from.
model::ModelMemory model_with_large_windows() {
  model::ModelMemory model = model_of(8192);
  model.kv_layout.groups.push_back({cache::KvKind::kWindow, 64, {{64, 512, 512}}, 0});
  return model;
}

TEST(MemoryPlan, WindowsLeftBehindTakeLittleBesideFullPages) {
  const auto plan = plan_memory(model_with_large_windows(), {.step_rows = 32}, kFixed + 100'000 * kMib);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->kv_pages, (std::vector<int32_t>{1024, 64 * (2 + kWindowPagesExtra) + 1 + 1024 / 8 / kKeptShare}));
  EXPECT_EQ(plan->stages[0].window_sequences, 64);
}

TEST(MemoryPlan, FewerSequencesHaveWindowsWhereTheyLeaveTooLittle) {
  const model::ModelMemory model = model_with_large_windows();
  // Half of the memory that there is.
  const auto shared = plan_memory(model, {.step_rows = 32}, kFixed + 1'000 * kMib);
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(shared->stages[0].window_sequences, (1'000 / kWindowShare / 8 - 1) / 4);
  EXPECT_EQ(shared->context_tokens, 8192);
  // The context that was asked for comes first, and before windows that are left behind.
  const auto asked = plan_memory(model, {.context_tokens = 8192, .step_rows = 32}, kFixed + 300 * kMib);
  ASSERT_TRUE(asked.has_value()) << asked.error().text();
  EXPECT_EQ(asked->stages[0].window_sequences, 1);
  EXPECT_EQ(asked->kv_pages, (std::vector<int32_t>{256, 1 * 4 + 1}));
  EXPECT_FALSE(plan_memory(model, {.context_tokens = 8192, .step_rows = 32}, kFixed + 295 * kMib).has_value());
}

TEST(MemoryPlan, StateGroupsGetSlotsToRunAndToResume) {
  model::ModelMemory model = model_of(4096);
  model.kv_layout.groups.push_back({cache::KvKind::kState, 0, {}, 2 * kMib});
  const MemoryRequest request{.sequences_running = 5};
  const auto plan = plan_memory(model, request, kFixed + 10'000 * kMib);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->kv_pages, (std::vector<int32_t>{512, 5 * (1 + kCheckpointsPerSequence)}));
  EXPECT_EQ(plan->stages[0].kv_bytes, (512 + 30) * kMib);
  const auto tight = plan_memory(model, request, kFixed + 40 * kMib);
  ASSERT_TRUE(tight.has_value());
  EXPECT_EQ(tight->kv_pages, (std::vector<int32_t>{20, 10})) << "half of what there is for states";
  const auto least = plan_memory(model, {.kv_bytes = 5 * kMib}, kFixed + 40 * kMib);
  ASSERT_TRUE(least.has_value());
  EXPECT_EQ(least->kv_pages, (std::vector<int32_t>{1, kStateSlotsMin}));
  EXPECT_FALSE(plan_memory(model, {.kv_bytes = 5 * kMib - 1}, kFixed + 40 * kMib).has_value());

  model.kv_layout.groups.erase(model.kv_layout.groups.begin());
  const auto states_only = plan_memory(model, {.kv_bytes = 8 * kMib}, kFixed + 40 * kMib);
  ASSERT_TRUE(states_only.has_value());
  EXPECT_EQ(states_only->kv_pages, std::vector<int32_t>{4});
  EXPECT_EQ(states_only->context_tokens, 4096) << "a state holds any number of tokens";
}

/// The model behind a stage with 64 MiB of weights more on another device, where a page is half of one.
model::ModelMemory split_model_of(int32_t context_tokens) {
  model::ModelMemory model = model_of(context_tokens);
  model.stages.insert(model.stages.begin(), {.weight_bytes = 64 * kMib});
  cache::KvGroup first = model.kv_layout.groups[0];
  first.layers[0].kv_heads = 4;
  model.kv_layout.groups[0].device = 1;
  model.kv_layout.groups.insert(model.kv_layout.groups.begin(), first);
  return model;
}

TEST(MemoryPlan, TwoDevicesHoldAsMuchAsTheOneThatHoldsLess) {
  const int64_t first_fixed = 64 * kMib + kReservedBytes + kMib / 2;
  const model::ModelMemory model = split_model_of(131'072);
  const auto planned = [&](const model::ModelMemory& what, const MemoryRequest& request, int64_t first,
                           int64_t second) {
    return plan_memory(what, request, std::array<StageDevice, 2>{{{first, "cpu avx2"}, {second, "cuda 0"}}});
  };
  for (const auto& [second, first] : {std::pair{100, 10'000}, {10'000, 50}}) {
    const auto plan = planned(model, {}, first_fixed + first * kMib, kFixed + second * kMib);
    ASSERT_TRUE(plan.has_value()) << plan.error().text();
    EXPECT_EQ(plan->kv_pages, (std::vector<int32_t>{100, 100}));
    EXPECT_EQ(plan->kv_tokens, 3200);
    EXPECT_EQ(plan->context_tokens, 3200);
    EXPECT_FALSE(plan->whole_context) << "one of them is too small for it";
    ASSERT_EQ(plan->stages.size(), 2u);
    EXPECT_EQ(plan->stages[0].kv_bytes, 50 * kMib);
    EXPECT_EQ(plan->stages[1].kv_bytes, 100 * kMib);
    EXPECT_EQ(plan->stages[0].weight_bytes, 64 * kMib);
    EXPECT_EQ(plan->stages[1].weight_bytes, 1000 * kMib);
    EXPECT_EQ(plan->bytes(), plan->stages[0].bytes() + plan->stages[1].bytes());
  }
  EXPECT_TRUE(planned(split_model_of(3200), {}, first_fixed + 100 * kMib, kFixed + 100 * kMib)->whole_context);
  // One budget for both.
  const auto asked = planned(model, {.kv_bytes = 30 * kMib}, first_fixed + 100 * kMib, kFixed + 100 * kMib);
  ASSERT_TRUE(asked.has_value()) << asked.error().text();
  EXPECT_EQ(asked->kv_pages, (std::vector<int32_t>{20, 20}));

  const auto refused = planned(model, {}, first_fixed, kFixed + 100 * kMib);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kOutOfMemory);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("layers on cpu avx2"));
  EXPECT_THAT(refused.error().message, testing::HasSubstr("weights 64.0 MiB"));
  const auto last_refused = planned(model, {}, first_fixed + 100 * kMib, kFixed);
  ASSERT_FALSE(last_refused.has_value());
  EXPECT_THAT(last_refused.error().message, testing::HasSubstr("layers on cuda 0"));
}

TEST(MemoryPlan, ThreeDevicesTooAndEachGroupGetsItsOwnPages) {
  const int64_t fixed = 64 * kMib + kReservedBytes + kMib / 2;
  model::ModelMemory model = split_model_of(131'072);
  model.stages.insert(model.stages.begin() + 1, {.weight_bytes = 32 * kMib});
  model.kv_layout.groups[1].device = 2;
  cache::KvGroup window = model.kv_layout.groups[0];  // between the two of the others
  window.kind = cache::KvKind::kWindow;
  window.window = 64;
  window.device = 1;
  cache::KvGroup second = model.kv_layout.groups[0];
  second.device = 1;
  model.kv_layout.groups.insert(model.kv_layout.groups.begin() + 1, {window, second});
  const MemoryRequest request{.sequences_running = 1};
  const StageDevice least{fixed + 40 * kMib, "cuda 0"}, more{fixed + 10'000 * kMib, "cuda 1"};
  const StageDevice last{kFixed + 100 * kMib, "cuda 2"};
  const auto plan = plan_memory(model, request, std::array{least, more, last});
  ASSERT_TRUE(plan.has_value()) << plan.error().text();
  ASSERT_EQ(plan->kv_pages.size(), 4u);
  EXPECT_EQ(plan->kv_pages[0], 80);
  EXPECT_LT(plan->kv_pages[1], 80) << "of windows";
  EXPECT_EQ(plan->kv_pages[2], 80);
  EXPECT_EQ(plan->kv_pages[3], 80);
  EXPECT_EQ(plan->kv_tokens, 80 * kernels::kPageTokens);
  EXPECT_EQ(plan->stages[1].weight_bytes, 32 * kMib);
  const auto refused = plan_memory(model, request, std::array{more, StageDevice{1000, "cuda 7"}, last});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("layers on cuda 7"));
}

TEST(MemoryPlan, ALayerBeyondAnyMemoryIsRefused) {
  model::ModelMemory model = model_of(4096);
  model.kv_layout.groups[0].layers.assign(2'000, {1 << 20, 1 << 20, 1 << 20});
  const auto plan = plan_memory(model, {}, kFixed + 100 * kMib);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, Code::kOutOfMemory);
}

}  // namespace
}  // namespace cairn::loader
