// Every allocation of the engine's thread fails once: the engine goes on, every request comes to an end, no page is
// lost.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "base/testing/test_data.h"
#include "engine/testing/engine_fixture.h"

namespace {

// NOLINTBEGIN(cppcoreguidelines-no-malloc): operator new itself
// Allocations that this thread may still make; below 0 there is no limit.
thread_local int64_t allocations_left = -1;
// How many allocations fail then, one after the other.
thread_local int64_t failures_left = 1;

void* allocate(std::size_t bytes) {
  if (allocations_left == 0) {
    if (--failures_left <= 0) allocations_left = -1;
    throw std::bad_alloc();
  }
  if (allocations_left > 0) --allocations_left;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Replaced in this test program, as there is no other way to make one thread's allocations fail.
void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes == 0 ? 1 : bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
// NOLINTEND(cppcoreguidelines-no-malloc)

namespace cairn::engine {
namespace {

class EngineOutOfMemory : public EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(test_data()); }
};

TEST_F(EngineOutOfMemory, WhicheverAllocationFailsTheEngineGoesOnAndLosesNoPage) {
  int failed = 0;
  bool failing = true;
  int64_t nth = 0;
  // Until the failing allocation is one that this many steps no longer make.
  for (; failing && nth < 1'000; ++nth) {
    make_runner({});
    std::vector<std::unique_ptr<GenerateStream>> streams;
    int step = 0;
    std::atomic<bool> spent = false;
    runner_->set_on_step([&] {
      ++step;
      if (step == 2) failures_left = 1;
      if (step == 2) allocations_left = nth;
      if (step == 4) streams[3]->cancel();  // while it waits
      if (step == 12) spent = allocations_left < 0;
      if (step == 12) allocations_left = -1;
    });
    runner_->hold();
    start({.kv_pages = {32, 32}, .queue_max = 16, .sequences_max = 3, .prefill_chunk_max = 24});
    for (uint64_t i = 0; i < 5; ++i) {
      GenerateRequest request = request_of(prompt_of(10 + 10 * i, i), i == 4 ? 60 : 6, 1.0f, i);
      request.ignore_eos = true;
      request.render_special = true;
      request.sampling.top_logprobs = 3;
      request.sampling.logprobs = true;
      request.sampling.repetition_penalty = 1.1f;
      request.stop = {"a stop string that is longer than what fits into a short string"};
      streams.push_back(submit(request));
    }
    runner_->release();
    int errors = 0;
    for (const auto& stream : streams) {
      const Answer answer = collect(*stream);
      if (answer.finish.reason != FinishReason::kError) continue;
      ++errors;
      EXPECT_EQ(answer.finish.error.code, Code::kOutOfMemory);
    }
    ASSERT_LE(errors, 3) << "allocation " << nth;
    expect_idle();
    EXPECT_EQ(ask(request_of(prompt_of(5), 1)).tokens.size(), 1u);
    engine_.reset();
    failing = spent;
    failed += errors > 0;
  }
  EXPECT_FALSE(failing) << "more allocations than expected";
  EXPECT_GT(failed, 20);
  EXPECT_GT(nth, 40);
}

// Simulates a memory limit that has been reached: allocations go on failing, also while the failure is handled.
TEST_F(EngineOutOfMemory, WhileAllAllocationsFailTheEngineGoesOnAndEveryRequestEnds) {
  int errors = 0;
  for (const int64_t failures : {2, 5, 30}) {
    for (int64_t nth = 0; nth < 60; nth += 7) {
      make_runner({});
      std::vector<std::unique_ptr<GenerateStream>> streams;
      int step = 0;
      runner_->set_on_step([&] {
        if (++step != 2) return;
        failures_left = failures;
        allocations_left = nth;
      });
      runner_->hold();
      start({.kv_pages = {32, 32},
             .queue_max = 16,
             .sequences_max = 3,
             .prefill_chunk_max = 24,
             .speculation = {.tokens_max = 3, .ngram_max = 3}});
      for (uint64_t i = 0; i < 6; ++i) {
        GenerateRequest request = request_of(prompt_of(10 + 10 * i, i), 20, 1.0f, i);
        request.client = i % 2 == 0 ? "an address" : "another address";
        request.id = "an answer's id that is longer than what fits into a short string";
        request.ignore_eos = true;
        request.sampling.top_logprobs = 3;
        request.sampling.logprobs = true;
        streams.push_back(submit(request));
      }
      runner_->release();
      for (const auto& stream : streams) {
        const Answer answer = collect(*stream);
        if (answer.finish.reason != FinishReason::kError) continue;
        ++errors;
        EXPECT_EQ(answer.finish.error.code, Code::kOutOfMemory);
      }
      expect_idle();
      // These requests meet the failures that are left, at least one each.
      int64_t asked = 0;
      while (asked <= failures && ask(request_of(prompt_of(5), 1)).tokens.empty()) ++asked;
      EXPECT_LE(asked, failures);
      engine_.reset();
    }
  }
  EXPECT_GT(errors, 10);
}

}  // namespace
}  // namespace cairn::engine
