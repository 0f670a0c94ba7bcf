// How requests are refused, cancelled and failed, and that they leave no memory behind.
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>

#include "base/testing/test_data.h"
#include "engine/testing/engine_fixture.h"

namespace cairn::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class EngineEnds : public EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(test_data()); }

  // A request whose answer has exactly `max_tokens` tokens: tokens that end generation are ignored.
  static GenerateRequest exactly(size_t prompt_tokens, int32_t max_tokens, uint64_t seed = 0) {
    GenerateRequest request = request_of(prompt_of(prompt_tokens, seed), max_tokens);
    request.ignore_eos = true;
    return request;
  }
  static GenerateRequest endless(size_t prompt_tokens, uint64_t seed = 0) {
    GenerateRequest request = request_of(prompt_of(prompt_tokens, seed), -1, 1.0f, seed);
    request.ignore_eos = true;
    return request;
  }
};

TEST_F(EngineEnds, BadRequestsAreRefusedWithTheFieldAndTheReason) {
  make_runner({.context_tokens = 100});
  start({.kv_pages = {3, 3}, .queue_max = 4, .sequences_max = 4, .prefill_chunk_max = 8});
  struct Case {
    std::function<void(GenerateRequest&)> set;
    Code code;
    const char* at;
    std::vector<const char*> words;
  };
  const std::vector<Case> cases = {
      {[](GenerateRequest& r) { r.prompt.clear(); }, Code::kInvalidArgument, "prompt", {"no tokens"}},
      {[](GenerateRequest& r) { r.prompt[2] = TokenId{320}; },
       Code::kInvalidArgument,
       "prompt[2]",
       {"320", "0 to 319"}},
      {[](GenerateRequest& r) { r.prompt[0] = kNoToken; }, Code::kInvalidArgument, "prompt[0]", {"-1"}},
      {[](GenerateRequest& r) { r.sampling.top_p = 2; }, Code::kInvalidArgument, "top_p", {"top_p is 2"}},
      {[](GenerateRequest& r) { r.max_tokens = -2; }, Code::kInvalidArgument, "max_tokens", {"-2"}},
      {[](GenerateRequest& r) { r.stop.assign(kStopStringsMax + 1, "x"); },
       Code::kInvalidArgument,
       "stop",
       {"289", "288"}},
      {[](GenerateRequest& r) { r.stop_tokens = {TokenId{320}}; },
       Code::kInvalidArgument,
       "stop_token_ids",
       {"320", "0 to 319"}},
      {[](GenerateRequest& r) { r.min_tokens = -1; }, Code::kInvalidArgument, "min_tokens", {"-1"}},
      {[](GenerateRequest& r) { r.text_bias = {{std::string(257, 'x'), 1.0f}}; },
       Code::kInvalidArgument,
       "logit_bias",
       {"257 bytes"}},
      {[](GenerateRequest& r) { r.stop = {"x", ""}; }, Code::kInvalidArgument, "stop[1]", {"empty"}},
      {[](GenerateRequest& r) { r.stop = {std::string(1'025, 'x')}; },
       Code::kInvalidArgument,
       "stop[0]",
       {"1025", "1024"}},
      {[](GenerateRequest& r) { r.stop = {"\xFF"}; }, Code::kInvalidArgument, "stop[0]", {"UTF-8"}},
      {[](GenerateRequest& r) { r.prompt.resize(100); },
       Code::kContextLengthExceeded,
       "prompt",
       {"100 tokens", "context has 100"}},
      {[](GenerateRequest& r) { r.prompt.resize(700); },
       Code::kContextLengthExceeded,
       "prompt",
       {"700 tokens", "context has 100"}},
      {[](GenerateRequest& r) { r.max_tokens = 95; },
       Code::kTooLarge,
       "",
       {"need 4 KV pages", "pool has 3", "max_tokens", "--kv-bytes"}},
      {[](GenerateRequest& r) { r.prompt.resize(98); }, Code::kTooLarge, "", {"4 KV pages", "shorten the prompt"}},
  };
  for (const Case& one : cases) {
    GenerateRequest request = request_of(prompt_of(5), -1);
    one.set(request);
    const Error error = refused(request);
    EXPECT_EQ(error.code, one.code) << error.text();
    EXPECT_EQ(error.at, one.at) << error.text();
    for (const char* word : one.words) {
      EXPECT_NE(error.message.find(word), std::string::npos) << word << " is not in: " << error.text();
    }
  }
  EXPECT_EQ(engine_->stats().total_requests, 0);

  // A request at the limits: kStopStringsMax stop strings of 1024 bytes each; 97 tokens fill the pool.
  GenerateRequest request = request_of(prompt_of(5), 92);
  request.ignore_eos = true;
  request.stop.assign(kStopStringsMax, std::string(1'024, 'x'));
  EXPECT_EQ(ask(request).tokens.size(), 92u);
  // Without max_tokens the answer ends where the pool does.
  request.max_tokens = -1;
  EXPECT_EQ(ask(request).tokens.size(), 92u);
  expect_idle();
}

TEST_F(EngineEnds, OptionsBelowOneAreRefused) {
  const EngineOptions good{.kv_pages = {4, 4}, .queue_max = 1, .sequences_max = 1, .prefill_chunk_max = 1};
  const std::function<void(EngineOptions&)> mistakes[] = {
      [](EngineOptions& o) { o.kv_pages = {4, 0}; },     [](EngineOptions& o) { o.kv_pages = {4}; },
      [](EngineOptions& o) { o.queue_max = 0; },         [](EngineOptions& o) { o.sequences_max = 0; },
      [](EngineOptions& o) { o.prefill_chunk_max = 0; }, [](EngineOptions& o) { o.step = milliseconds(0); }};
  for (const auto& mistake : mistakes) {
    EngineOptions options = good;
    mistake(options);
    const auto engine = Engine::create(*runner_, *backend_, *shared_tokenizer, options);
    ASSERT_FALSE(engine.has_value());
    EXPECT_EQ(engine.error().code, Code::kInvalidArgument);
  }
  start(good);
  EXPECT_EQ(ask(request_of(prompt_of(40), 8)).finish.usage.prompt_tokens, 40);
}

TEST_F(EngineEnds, AFullQueueRefusesUntilThereIsRoom) {
  runner_->hold();
  start({.kv_pages = {64, 64}, .queue_max = 3, .sequences_max = 1, .prefill_chunk_max = 8});
  std::vector<std::unique_ptr<GenerateStream>> streams;
  streams.push_back(submit(exactly(5, 3)));
  runner_->wait_until_held();
  for (int i = 0; i < 3; ++i) streams.push_back(submit(exactly(5, 3)));
  EXPECT_EQ(engine_->stats().active_requests, 1);
  EXPECT_EQ(engine_->stats().waiting_requests, 3);
  const Error error = refused(exactly(5, 3));
  EXPECT_EQ(error.code, Code::kQueueFull);
  EXPECT_NE(error.message.find("3 requests"), std::string::npos);
  EXPECT_EQ(engine_->stats().total_requests, 4);

  streams.pop_back();  // one waiting request goes: its place is free after the next step
  runner_->allow(1);
  runner_->wait_until_held();
  EXPECT_EQ(engine_->stats().waiting_requests, 2);
  streams.push_back(submit(exactly(5, 3)));
  runner_->release();
  for (const auto& stream : streams) EXPECT_EQ(collect(*stream).finish.reason, FinishReason::kLength);
  expect_idle();
}

TEST_F(EngineEnds, RequestsWaitForPagesInOrder) {
  runner_->hold();
  start({.kv_pages = {5, 5}, .queue_max = 8, .sequences_max = 8, .prefill_chunk_max = 64});
  // Requests of two pages, of three pages, and one that would fit beside the first but may not pass the second.
  std::vector<std::unique_ptr<GenerateStream>> streams;
  streams.push_back(submit(exactly(64, 30)));
  streams.push_back(submit(exactly(96, 5, 1)));
  streams.push_back(submit(exactly(3, 1, 2)));
  runner_->wait_until_held();
  runner_->allow(1);  // the current step may have been planned before all requests were in
  runner_->wait_until_held();
  EXPECT_EQ(engine_->stats().active_requests, 1);
  EXPECT_EQ(engine_->stats().waiting_requests, 2);
  runner_->release();
  for (const auto& stream : streams) EXPECT_EQ(collect(*stream).finish.reason, FinishReason::kLength);
  bool second = false;
  for (const auto& step : runner_->steps()) {
    for (const auto& slice : step) {
      second |= slice.sequence == 1;
      if (slice.sequence != 2) continue;
      EXPECT_TRUE(second);
    }
  }
  expect_idle();
}

// Brings a request to a phase while the engine is held in the middle of a step.
enum class Phase { kWaiting, kPrefill, kDecode };

TEST_F(EngineEnds, ACancelledOrAbandonedRequestFreesItsMemoryWithinOneStepInEveryPhase) {
  for (const Phase phase : {Phase::kWaiting, Phase::kPrefill, Phase::kDecode}) {
    for (const bool abandon : {false, true}) {
      SCOPED_TRACE(static_cast<int>(phase) * 2 + abandon);
      make_runner({});
      runner_->hold();
      start({.kv_pages = {16, 16},
             .queue_max = 8,
             .sequences_max = phase == Phase::kWaiting ? 1 : 4,
             .prefill_chunk_max = 20});
      const auto other = submit(endless(3));
      runner_->wait_until_held();
      auto stream = submit(endless(90, 1));
      // The 90 tokens take five or six steps with up to 20 rows; after them decoding begins.
      runner_->allow(phase == Phase::kDecode ? 9 : 3);
      while (runner_->steps().size() < (phase == Phase::kDecode ? 9u : 3u))
        std::this_thread::sleep_for(milliseconds(1));
      runner_->wait_until_held();
      const EngineStats before = engine_->stats();
      EXPECT_EQ(before.active_requests, phase == Phase::kWaiting ? 1 : 2);
      EXPECT_EQ(before.waiting_requests, phase == Phase::kWaiting ? 1 : 0);
      EXPECT_EQ(before.pages_free + before.pages_cached < 15, phase != Phase::kWaiting);

      abandon ? stream.reset() : stream->cancel();
      runner_->allow(1);
      while (engine_->stats().steps == before.steps) std::this_thread::sleep_for(milliseconds(1));
      runner_->wait_until_held();
      const EngineStats after = engine_->stats();
      EXPECT_EQ(after.steps, before.steps + 1);
      EXPECT_EQ(after.active_requests, 1);
      EXPECT_EQ(after.waiting_requests, 0);
      EXPECT_EQ(after.pages_free + after.pages_cached, 15);
      if (!abandon) {
        const Answer answer = collect(*stream);
        EXPECT_EQ(answer.finish.reason, FinishReason::kCancelled);
        EXPECT_EQ(answer.finish.usage.prompt_tokens, 90);
        EXPECT_EQ(answer.tokens.empty(), phase != Phase::kDecode);
      }
      runner_->release();
      other->cancel();
      collect(*other);
      expect_idle();
      engine_.reset();
    }
  }
}

TEST_F(EngineEnds, CancelAfterTheEndChangesNothing) {
  start();
  const auto stream = submit(exactly(3, 2));
  const Answer answer = collect(*stream);
  stream->cancel();
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
  const Events after = stream->wait(seconds(20));  // does not wait
  EXPECT_FALSE(after.finished);
  EXPECT_TRUE(after.tokens.empty());
}

TEST_F(EngineEnds, AFailedStepEndsItsBatchAndTheEngineGoesOn) {
  enum class Failing { kStep, kSample, kMemory };
  for (const Failing failing : {Failing::kStep, Failing::kSample, Failing::kMemory}) {
    make_runner({.samples = failing == Failing::kSample});
    runner_->hold();
    start({.kv_pages = {32, 32}, .queue_max = 8, .sequences_max = 2, .prefill_chunk_max = 20});
    std::vector<std::unique_ptr<GenerateStream>> streams;
    streams.reserve(3);
    for (uint64_t i = 0; i < 3; ++i) streams.push_back(submit(exactly(5, 4, i)));
    runner_->wait_until_held();
    runner_->allow(2);
    while (runner_->steps().size() < 2) std::this_thread::sleep_for(milliseconds(1));
    runner_->wait_until_held();
    const bool thrown = failing == Failing::kMemory;
    const Error error{Code::kIo, "the machine with layers 8 to 15 went away", "peer"};
    if (failing == Failing::kStep) runner_->fail_next(error);
    if (failing == Failing::kSample) runner_->fail_next_sample(error);
    if (thrown) runner_->throw_next();
    runner_->release();
    for (int i = 0; i < 2; ++i) {
      const Answer answer = collect(*streams[static_cast<size_t>(i)]);
      EXPECT_EQ(answer.finish.reason, FinishReason::kError);
      EXPECT_EQ(answer.finish.error.code, thrown ? Code::kOutOfMemory : Code::kIo);
      EXPECT_EQ(answer.finish.error.message, thrown ? "out of memory" : "the machine with layers 8 to 15 went away");
      EXPECT_EQ(answer.tokens.size(), static_cast<size_t>(answer.finish.usage.completion_tokens));
    }
    // The request that waited was not in the batch.
    EXPECT_EQ(collect(*streams[2]).finish.reason, FinishReason::kLength);
    EXPECT_EQ(ask(exactly(5, 4)).finish.reason, FinishReason::kLength);
    expect_idle();
    engine_.reset();
  }
}

TEST_F(EngineEnds, AStepWithChangedWeightsFailsItsRequests) {
  std::atomic<bool> changed = false;
  start({.kv_pages = {32, 32}, .sequences_max = 2, .prefill_chunk_max = 20, .check_weights = [&]() -> Result<void> {
           if (changed) return fail(Code::kIo, "the file has changed");
           return {};
         }});
  const Answer before = ask(exactly(5, 4));
  EXPECT_EQ(before.finish.reason, FinishReason::kLength);
  changed = true;
  const Answer failed = ask(exactly(5, 4, 1));
  EXPECT_EQ(failed.finish.reason, FinishReason::kError);
  EXPECT_EQ(failed.finish.error.code, Code::kIo);
  EXPECT_EQ(failed.finish.error.message, "the file has changed");
  EXPECT_TRUE(failed.tokens.empty());
  changed = false;
  EXPECT_EQ(ask(exactly(5, 4)).tokens, before.tokens);
  expect_idle();
  engine_.reset();  // calls check_weights until it is destroyed
}

TEST_F(EngineEnds, StoppingFinishesAllRequestsAndRefusesNewOnes) {
  runner_->hold();
  start({.kv_pages = {32, 32}, .queue_max = 8, .sequences_max = 2, .prefill_chunk_max = 20});
  std::vector<std::unique_ptr<GenerateStream>> streams;
  streams.reserve(5);
  for (uint64_t i = 0; i < 5; ++i) streams.push_back(submit(endless(30, i)));
  runner_->wait_until_held();
  std::thread stopper([&] { engine_->stop(); });
  // While the engine stops, it still refuses requests with an error.
  Error error;
  while (error.code != Code::kUnavailable) {
    auto late = engine_->submit(request_of(prompt_of(5), 1));
    if (!late.has_value()) error = late.error();
  }
  runner_->release();
  stopper.join();
  engine_->stop();
  EXPECT_EQ(refused(request_of(prompt_of(5), 1)).code, Code::kUnavailable);
  expect_idle();
  for (const auto& stream : streams) EXPECT_EQ(collect(*stream).finish.reason, FinishReason::kCancelled);
}

TEST_F(EngineEnds, StreamsOutliveTheEngine) {
  start({.kv_pages = {32, 32}, .queue_max = 64, .sequences_max = 2, .prefill_chunk_max = 20});
  std::vector<std::unique_ptr<GenerateStream>> streams;
  streams.reserve(10);
  for (uint64_t i = 0; i < 10; ++i) streams.push_back(submit(endless(30, i)));
  Answer first;
  collect_tokens(*streams[0], 1, first);
  engine_.reset();
  for (const auto& stream : streams) {
    Events events = stream->wait(milliseconds(0));
    // The first answer's end may have come with its tokens.
    const bool ended_before = stream == streams[0] && first.finished;
    EXPECT_TRUE(events.finished || ended_before);
    EXPECT_EQ((ended_before ? first.finish : events.finish).usage.prompt_tokens, 30);
    stream->cancel();
  }
}

TEST_F(EngineEnds, NotifyIsCalledOncePerStepAndNeverAfterTheStreamIsDestroyed) {
  start();
  std::atomic<int> calls = 0;
  const GenerateRequest request = exactly(3, 5);
  runner_->hold();
  auto counted = submit(request);
  runner_->wait_until_held();
  counted->on_events([&] { ++calls; });
  runner_->release();
  const Answer answer = collect(*counted);
  // One call per token; the finish comes with the last one. The last call may come after its events could be drained.
  const int tokens = static_cast<int>(answer.tokens.size());
  for (int i = 0; i < 2'000 && calls < tokens; ++i) std::this_thread::sleep_for(milliseconds(5));
  wait_until_idle();
  counted.reset();  // returns only when no call is running
  EXPECT_EQ(calls, tokens);

  // on_events calls at once, on this thread, if events are there already.
  const auto early = submit(request);
  wait_until_idle();
  std::thread::id caller;
  early->on_events([&] { caller = std::this_thread::get_id(); });
  EXPECT_EQ(caller, std::this_thread::get_id());
  collect(*early);

  // Held, as the answer could come to the context's end before it is known who waits for it.
  runner_->hold();
  auto abandoned = submit(endless(3));
  std::atomic<int> late = 0;
  abandoned->on_events([&] { ++late; });
  runner_->release();
  while (late < 3) std::this_thread::sleep_for(milliseconds(1));
  abandoned.reset();
  const int at_end = late;
  wait_until_idle();
  EXPECT_EQ(late, at_end);
}

TEST_F(EngineEnds, WaitReturnsNoEventsAfterItsTimeout) {
  runner_->hold();
  start();
  const auto stream = submit(exactly(3, 1));
  const Events events = stream->wait(milliseconds(20));
  EXPECT_FALSE(events.finished);
  EXPECT_TRUE(events.tokens.empty());
  EXPECT_TRUE(stream->drain().tokens.empty());
  runner_->release();
  EXPECT_EQ(collect(*stream).tokens.size(), 1u);
}

TEST_F(EngineEnds, StatsCountRequestsTokensAndSteps) {
  start();
  GenerateRequest request = request_of(prompt_of(50), 7);
  request.ignore_eos = true;
  ask(request);
  ask(request);
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.total_requests, 2);
  EXPECT_EQ(stats.tokens_generated, 14);
  EXPECT_EQ(stats.prompt_tokens, 50 + 1);
  EXPECT_EQ(stats.cached_tokens, 49);
  EXPECT_EQ(stats.pages_total, 64);
  EXPECT_EQ(engine_->context_tokens(), 256);
}

TEST_F(EngineEnds, RandomRequestsAndCancelsFromManyThreadsLeaveNothingBehind) {
  start({.kv_pages = {24, 24}, .queue_max = 16, .sequences_max = 6, .prefill_chunk_max = 24});
  std::atomic<int> answered = 0, refusals = 0;
  const auto client = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 50; ++i) {
      GenerateRequest request =
          request_of(prompt_of(1 + random() % 150, random()), static_cast<int32_t>(1 + random() % 60),
                     static_cast<float>(random() % 2), random());
      if (random() % 2) request.stop = {"a", "\n"};
      auto stream = engine_->submit(request);
      if (!stream.has_value()) {
        EXPECT_EQ(stream.error().code, Code::kQueueFull);
        ++refusals;
        continue;
      }
      const auto what = random() % 4;
      Answer answer;
      if (what < 2) answer.add((*stream)->wait(milliseconds(random() % 3)));
      if (what == 0) continue;  // the stream is destroyed
      if (what < 3) (*stream)->cancel();
      collect(**stream, answer);
      EXPECT_NE(answer.finish.reason, FinishReason::kError) << answer.finish.error.text();
      ++answered;
    }
  };
  std::vector<std::thread> clients;
  clients.reserve(4);
  for (unsigned seed = 0; seed < 4; ++seed) clients.emplace_back(client, seed);
  for (std::thread& thread : clients) thread.join();
  wait_until_idle();
  EXPECT_GT(answered, 60);
  EXPECT_EQ(engine_->stats().total_requests + refusals, 200);
}

TEST_F(EngineEnds, AnyExceptionOfAStepFailsItsRequestsAndTheEngineGoesOn) {
  make_runner({});
  std::atomic<int> steps = 0;
  runner_->set_on_step([&] {
    if (++steps == 2) throw std::runtime_error("nobody expects this");
  });
  start();
  const Answer failed = ask(exactly(10, 20));
  EXPECT_EQ(failed.finish.reason, FinishReason::kError);
  EXPECT_EQ(failed.finish.error.code, Code::kInternal);
  EXPECT_NE(failed.finish.error.message.find("nobody expects this"), std::string::npos);
  expect_idle();
  EXPECT_EQ(ask(exactly(10, 3)).tokens.size(), 3u);
}

TEST_F(EngineEnds, AClientWhoseWakeUpFailedIsWokenLater) {
  runner_->hold();
  start();
  const auto stream = submit(exactly(10, 1));
  runner_->wait_until_held();
  std::atomic<int> calls = 0;
  std::atomic<bool> told = false;
  stream->on_events([&] {
    if (++calls < 4) throw std::bad_alloc();  // when the wake-up is posted
    told = true;
  });
  runner_->release();
  for (int i = 0; i < 2'000 && !told; ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(told);
  EXPECT_TRUE(stream->drain().finished);
}

}  // namespace
}  // namespace cairn::engine
