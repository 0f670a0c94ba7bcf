// What the engine caches and reuses, and what it does when memory runs out: an answer never changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/testing/test_data.h"
#include "engine/output/event_channel.h"
#include "engine/testing/engine_fixture.h"

namespace cairn::engine {
namespace {

/// Bytes of host memory for one page of each of the fake model's two groups.
constexpr int64_t kHostSlotBytes = 2 * 8 * kernels::kPageTokens;

class EngineMemory : public EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(test_data()); }
};

TEST_F(EngineMemory, EachTurnOfAConversationComputesItsNewTokensOnly) {
  make_runner({.context_tokens = 8'192, .batch_tokens_max = 256});
  start({.kv_pages = {256, 256}, .queue_max = 8, .sequences_max = 4, .prefill_chunk_max = 256});
  std::vector<TokenId> history = prompt_of(400, 1);
  for (uint64_t turn = 0; turn < 30; ++turn) {
    GenerateRequest request = request_of(history, 40, 0.8f, turn);
    request.ignore_eos = true;
    const int64_t before = engine_->stats().prompt_tokens;
    const Answer answer = ask(request);
    const auto computed = static_cast<int32_t>(engine_->stats().prompt_tokens - before);
    const Usage& usage = answer.finish.usage;
    EXPECT_EQ(usage.cached_tokens + computed, usage.prompt_tokens);
    if (turn > 0) {
      // Computed again: the last sampled token, which was never computed, and the new tool result.
      EXPECT_EQ(computed, 1 + 50) << "turn " << turn;
    }
    history.insert(history.end(), answer.tokens.begin(), answer.tokens.end());
    const std::vector<TokenId> tool_result = prompt_of(50, 100 + turn);
    history.insert(history.end(), tool_result.begin(), tool_result.end());
  }
  expect_idle();
}

TEST_F(EngineMemory, APromptSentByManyAtOnceIsComputedOnce) {
  make_runner({.context_tokens = 1'024, .batch_tokens_max = 128});
  runner_->hold();
  start({.kv_pages = {256, 256}, .queue_max = 32, .sequences_max = 16, .prefill_chunk_max = 128});
  std::vector<GenerateRequest> requests;
  std::vector<std::unique_ptr<GenerateStream>> streams;
  for (uint64_t i = 0; i < 8; ++i) {
    std::vector<TokenId> prompt = prompt_of(640);
    const std::vector<TokenId> question = prompt_of(20, i + 1);
    prompt.insert(prompt.end(), question.begin(), question.end());
    requests.push_back(request_of(std::move(prompt), 10, 0.5f, i));
    streams.push_back(submit(requests.back()));
  }
  runner_->release();
  for (size_t i = 0; i < streams.size(); ++i) {
    expect_same(collect(*streams[i]), reference(requests[i]), "request " + std::to_string(i));
  }
  EXPECT_EQ(engine_->stats().prompt_tokens, 640 + 8 * 20);
  EXPECT_EQ(engine_->stats().cached_tokens, 7 * 640);
}

// A conversation, then others that need its memory, then the conversation's next turn.
struct NextTurn {
  int32_t cached_tokens = 0;
  int64_t restored = 0;  // pages restored from host memory
};

class EngineHostTier : public EngineMemory {
 protected:
  static constexpr int32_t kPromptTokens = 200, kAnswerTokens = 40, kQuestionTokens = 20;
  static constexpr int32_t kContextTokens = 512;

  NextTurn talk(int32_t pages, int64_t host_bytes) {
    make_runner({.context_tokens = kContextTokens, .batch_tokens_max = 128});
    start({.kv_pages = {pages, pages},
           .queue_max = 16,
           .sequences_max = 4,
           .prefill_chunk_max = 128,
           .kv_host_bytes = host_bytes});
    GenerateRequest request = request_of(prompt_of(kPromptTokens, 1), kAnswerTokens, 0.8f, 5);
    request.ignore_eos = true;
    const Answer first = ask(request);
    expect_same(first, reference(request), "first turn");
    for (uint64_t other = 0; other < 4; ++other) {
      const GenerateRequest long_one = request_of(prompt_of(400, 100 + other), 10, 0.8f, other);
      expect_same(ask(long_one), reference(long_one), "other " + std::to_string(other));
    }
    const std::vector<TokenId> question = prompt_of(kQuestionTokens, 2);
    request.prompt.insert(request.prompt.end(), first.tokens.begin(), first.tokens.end());
    request.prompt.insert(request.prompt.end(), question.begin(), question.end());
    const int64_t restored_before = engine_->stats().pages_restored;
    const Answer second = ask(request);
    expect_same(second, reference(request), "second turn");
    expect_idle();
    return {second.finish.usage.cached_tokens, engine_->stats().pages_restored - restored_before};
  }
};

TEST_F(EngineHostTier, ANextTurnRestoresPagesThatOtherRequestsEvicted) {
  // The last token that was sampled has not been computed.
  constexpr int32_t kHistory = kPromptTokens + kAnswerTokens - 1;
  const NextTurn roomy = talk(256, 0);
  EXPECT_EQ(roomy.cached_tokens, kHistory);
  EXPECT_EQ(roomy.restored, 0);
  // Sixteen pages hold one context: each of the other conversations needs nearly all of them.
  const NextTurn without = talk(kContextTokens / kernels::kPageTokens, 0);
  EXPECT_EQ(without.cached_tokens, 0);
  EXPECT_EQ(without.restored, 0);
  const NextTurn with = talk(kContextTokens / kernels::kPageTokens, 1 << 20);
  EXPECT_EQ(with.cached_tokens, kHistory);
  EXPECT_EQ(with.restored, 2 * ((kHistory + kernels::kPageTokens - 1) / kernels::kPageTokens)) << "of two groups";
}

TEST_F(EngineHostTier, TooLittleHostMemoryIsRefusedNamingTheFlag) {
  EngineOptions options{.kv_pages = {16, 16}, .kv_host_bytes = 100};
  const auto refused = Engine::create(*runner_, *backend_, *shared_tokenizer, options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("--kv-host-bytes"), std::string::npos);
}

TEST_F(EngineMemory, RequestsOfDifferentSaltsShareNoCache) {
  start();
  GenerateRequest request = request_of(prompt_of(100), 3);
  EXPECT_EQ(ask(request).finish.usage.cached_tokens, 0);
  EXPECT_EQ(ask(request).finish.usage.cached_tokens, 99);
  request.salt = 7;
  EXPECT_EQ(ask(request).finish.usage.cached_tokens, 0);
  EXPECT_EQ(ask(request).finish.usage.cached_tokens, 99);
}

TEST_F(EngineMemory, WithoutAPrefixCacheNothingIsKept) {
  start({.kv_pages = {16, 16}, .queue_max = 8, .sequences_max = 4, .prefill_chunk_max = 24, .prefix_cache = false});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask(request_of(prompt_of(100), 3)).finish.usage.cached_tokens, 0);
    EXPECT_EQ(engine_->stats().pages_free, 16);
  }
}

TEST_F(EngineMemory, PreemptedSequencesAnswerTheSame) {
  for (const bool prefix_cache : {true, false}) {
    make_runner({});
    runner_->hold();
    // Eight pages hold one sequence of 256; twelve sequences of up to 200 tokens share them.
    start({.kv_pages = {8, 8},
           .queue_max = 32,
           .sequences_max = 12,
           .prefill_chunk_max = 40,
           .prefix_cache = prefix_cache});
    std::vector<GenerateRequest> requests;
    std::vector<std::unique_ptr<GenerateStream>> streams;
    for (uint64_t i = 0; i < 12; ++i) {
      GenerateRequest request = request_of(prompt_of(5 + i * 3, i), 120, 0.9f, i);
      request.ignore_eos = true;
      request.sampling.repetition_penalty = 1.2f;
      add_steps(request.sampling, i);
      request.priority = i % 3 == 0 ? Priority::kBatch : Priority::kInteractive;
      requests.push_back(std::move(request));
      streams.push_back(submit(requests.back()));
    }
    runner_->release();
    int32_t preemptions = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      const Answer answer = collect(*streams[i]);
      expect_same(answer, reference(requests[i]), "request " + std::to_string(i));
      preemptions += answer.finish.timings.preemptions;
    }
    EXPECT_GT(preemptions, 3);
    EXPECT_EQ(engine_->stats().preemptions, preemptions);
    expect_idle();
  }
}

TEST_F(EngineMemory, AClientThatReadsNothingStallsOnlyItsOwnRequest) {
  make_runner({.context_tokens = 4'096});
  start({.kv_pages = {256, 256}, .queue_max = 8, .sequences_max = 4, .prefill_chunk_max = 64});
  GenerateRequest endless = request_of(prompt_of(4), 3'000, 1.0f);
  endless.ignore_eos = true;
  const auto stalled = submit(endless);
  while (engine_->stats().tokens_generated < static_cast<int64_t>(kPendingTokensMax)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const GenerateRequest other = request_of(prompt_of(30), 20);
  const int64_t before = engine_->stats().tokens_generated;
  const Answer answer = ask(other);
  expect_same(answer, reference(other), "beside a stalled one");
  EXPECT_LE(engine_->stats().tokens_generated - before, answer.finish.usage.completion_tokens + 1);
  const Answer late = collect(*stalled);
  EXPECT_EQ(late.tokens, reference(endless).tokens);
}

TEST_F(EngineMemory, ATenantAtItsLimitDoesNotLimitOtherTenants) {
  runner_->hold();
  start({.kv_pages = {64, 64}, .queue_max = 16, .sequences_max = 2, .tenant_requests_max = 3, .prefill_chunk_max = 24});
  std::vector<std::unique_ptr<GenerateStream>> streams;
  GenerateRequest request = request_of(prompt_of(10), 3);
  request.tenant = "a";
  for (int i = 0; i < 3; ++i) streams.push_back(submit(request));
  const Error refused_one = refused(request);
  EXPECT_EQ(refused_one.code, Code::kQueueFull);
  EXPECT_NE(refused_one.message.find("3 requests"), std::string::npos);
  request.tenant = "b";
  streams.push_back(submit(request));
  runner_->release();
  for (const auto& stream : streams) collect(*stream);
  request.tenant = "a";
  EXPECT_EQ(ask(request).tokens.size(), 3u);
}

TEST_F(EngineMemory, APrefixReportSaysWhereThePromptDiffersFromTheCache) {
  start();
  GenerateRequest request = request_of(prompt_of(100), 2);
  request.id = "first";
  request.client = "address";
  request.tenant = "key";
  ask(request);
  const Party me = party_of("address", "key");
  auto report = engine_->prefix_report("first", me);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->mismatch_position, -1);
  EXPECT_EQ(report->cached_tokens, 0);
  const TokenId cached = request.prompt[70];
  request.prompt[70] = TokenId{299};
  ASSERT_NE(cached, request.prompt[70]);
  request.id = "second";
  EXPECT_EQ(ask(request).finish.usage.cached_tokens, 70);
  report = engine_->prefix_report("second", me);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->cached_tokens, 70);
  EXPECT_EQ(report->mismatch_position, 70);
  EXPECT_EQ(report->mismatch_token, cached);
  ASSERT_EQ(report->prompt_around.size(), 2u * kReportTokensAround + 1);
  EXPECT_EQ(report->prompt_around[kReportTokensAround], TokenId{299});
  EXPECT_EQ(engine_->prefix_report("third", me).error().code, Code::kNotFound);
}

TEST_F(EngineMemory, APrefixReportIsOnlyForTheTenantOfItsRequest) {
  start();
  GenerateRequest request = request_of(prompt_of(100), 2);
  const auto asked_as = [&](const std::string& id, const std::string& client, const std::string& tenant) {
    request.id = id;
    request.client = client;
    request.tenant = tenant;
    ask(request);
  };
  const auto sees = [&](const std::string& id, const std::string& client, const std::string& tenant) {
    const auto report = engine_->prefix_report(id, party_of(client, tenant));
    if (!report) {
      const Error nobody = engine_->prefix_report("nobody", party_of(client, tenant)).error();
      EXPECT_EQ(report.error().code, nobody.code);
    }
    return report.has_value();
  };
  asked_as("with a key", "here", "key");
  EXPECT_TRUE(sees("with a key", "here", "key"));
  EXPECT_TRUE(sees("with a key", "elsewhere", "key"));
  EXPECT_FALSE(sees("with a key", "here", "another key"));
  EXPECT_FALSE(sees("with a key", "here", ""));
  asked_as("without", "here", "");
  EXPECT_TRUE(sees("without", "here", ""));
  EXPECT_FALSE(sees("without", "elsewhere", ""));
  EXPECT_FALSE(sees("without", "here", "key"));
}

TEST_F(EngineMemory, ARequestDisplacedFromAFullQueueEndsWithQueueFull) {
  runner_->hold();
  start({.kv_pages = {64, 64}, .queue_max = 3, .sequences_max = 1, .prefill_chunk_max = 24});
  GenerateRequest request = request_of(prompt_of(10), 3);
  request.client = "a";
  const auto running = submit(request);
  runner_->wait_until_held();
  std::vector<std::unique_ptr<GenerateStream>> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(submit(request));
  EXPECT_EQ(refused(request).code, Code::kQueueFull);
  request.client = "b";
  const auto other = submit(request);
  const Answer displaced = collect(*streams.back());
  EXPECT_EQ(displaced.finish.reason, FinishReason::kError);
  EXPECT_EQ(displaced.finish.error.code, Code::kQueueFull);
  streams.pop_back();
  runner_->release();
  for (const auto& stream : streams) EXPECT_EQ(collect(*stream).tokens.size(), 3u);
  EXPECT_EQ(collect(*other).tokens.size(), 3u);
  EXPECT_EQ(collect(*running).tokens.size(), 3u);
  expect_idle();
}

// Whatever else runs, a request's answer is that of the plain loop.
TEST_F(EngineMemory, RandomLoadNeverChangesAnAnswer) {
  for (uint32_t seed = 1; seed <= 25; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int32_t low, int32_t high) { return std::uniform_int_distribution(low, high)(random); };
    make_runner({.batch_tokens_max = pick(8, 64), .logits_max = pick(4, 24)});
    const int32_t pages = pick(8, 40);
    EngineOptions options;
    options.kv_pages = {pages, pages};
    options.queue_max = 64;
    options.sequences_max = pick(1, 16);
    options.prefill_chunk_max = pick(1, 64);
    options.prefix_cache = pick(0, 3) != 0;
    options.kv_host_bytes = pick(0, 1) * pick(1, 40) * kHostSlotBytes;
    options.speculation = {pick(0, 5), pick(2, 5)};
    runner_->hold();
    start(options);
    std::vector<GenerateRequest> requests;
    std::vector<std::unique_ptr<GenerateStream>> streams;
    for (int i = 0; i < 24; ++i) {
      // Few different beginnings, so that prompts share prefixes; repetition, so that some drafts are right.
      std::vector<TokenId> prompt = prompt_of(static_cast<size_t>(pick(1, 100)), static_cast<uint64_t>(pick(0, 2)));
      if (pick(0, 1) == 0) prompt.insert(prompt.end(), prompt.begin(), prompt.end());
      GenerateRequest request = request_of(std::move(prompt), pick(1, 50), pick(0, 1) == 0 ? 0.0f : 0.8f, pick(0, 9));
      request.ignore_eos = pick(0, 1) == 0;
      request.priority = pick(0, 2) == 0 ? Priority::kBatch : Priority::kInteractive;
      request.target_tbt = std::chrono::milliseconds(pick(0, 1) * pick(1, 100));
      if (pick(0, 2) == 0) request.sampling.repetition_penalty = 1.3f;
      add_steps(request.sampling, static_cast<size_t>(pick(0, 9)));
      requests.push_back(std::move(request));
      streams.push_back(submit(requests.back()));
      if (i == 8) runner_->release();
      if (pick(0, 7) == 0) streams[static_cast<size_t>(pick(0, i))]->cancel();
    }
    for (size_t i = 0; i < streams.size(); ++i) {
      const Answer answer = collect(*streams[i]);
      if (answer.finish.reason == FinishReason::kCancelled) continue;
      expect_same(answer, reference(requests[i]), fmt::format("request {} of seed {}", i, seed));
    }
    expect_idle();
  }
}

}  // namespace
}  // namespace cairn::engine
