#include "api/telemetry/request_metrics.h"

#include <gtest/gtest.h>

#include "api/telemetry/request_record.h"

namespace cairn::api {
namespace {

using std::chrono::milliseconds;

TEST(RequestMetrics, MadeUpKeysAreCountedTogetherBeyondTheLimit) {
  RequestMetrics metrics;
  constexpr int kKeys = 3 * static_cast<int>(kMetricPairsMax);
  for (int i = 0; i < kKeys; ++i) {
    RequestFacts facts;
    facts.key = fmt::format("#{}", i);
    facts.model = "m";
    facts.output_tokens = 2;
    metrics.add(facts);
  }
  EXPECT_EQ(metrics.pairs().size(), kMetricPairsMax);
  int64_t tokens = 0;
  for (const auto& [pair, counts] : metrics.pairs()) tokens += counts.output_tokens;
  EXPECT_EQ(tokens, 2 * kKeys);
  const auto other = metrics.pairs().find({std::string(kOtherLabel), std::string(kOtherLabel)});
  ASSERT_NE(other, metrics.pairs().end());
  EXPECT_EQ(other->second.output_tokens, 2 * (kKeys - static_cast<int>(kMetricPairsMax) + 1));
}

TEST(RequestMetrics, ARefusalHasAStatusAndNoTokens) {
  RequestMetrics metrics;
  RequestFacts facts;
  facts.protocol = "openai";
  facts.status = 400;
  facts.delivered = true;
  metrics.add(facts);
  const auto& counts = metrics.pairs().at({std::string(kNoLabel), std::string(kNoLabel)});
  EXPECT_EQ(counts.requests.at({"openai", 400}), 1);
  EXPECT_EQ(counts.gone, 0);
  EXPECT_TRUE(counts.finishes.empty());
}

engine::Finish finish_of(int32_t tokens, engine::FinishReason reason) {
  engine::Finish finish;
  finish.reason = reason;
  finish.usage = {.prompt_tokens = 7, .completion_tokens = tokens, .cached_tokens = 4};
  finish.timings.queue = milliseconds(3);
  return finish;
}

TEST(RequestRecord, CountsTheTokenThatEndsAnAnswerAndThePromptOfSeveralChoicesOnce) {
  RequestRecord record({});
  record.answering("m", 7, 2, true);
  for (int i = 0; i < 3; ++i) record.token("ab", i < 2);
  record.finished(finish_of(3, engine::FinishReason::kStop), 2, true);     // 2 told, and one that ended it
  record.finished(finish_of(1, engine::FinishReason::kLength), 1, false);  // all told
  const RequestFacts facts = record.facts();
  EXPECT_EQ(facts.output_tokens, 4);
  EXPECT_EQ(facts.prompt_tokens, 7);
  EXPECT_EQ(facts.cached_tokens, 4);
  EXPECT_TRUE(facts.has_first_token);
  EXPECT_EQ(facts.finish, "length");
  EXPECT_EQ(facts.times.queue, milliseconds(3));
}

TEST(RequestRecord, EndsOnce) {
  RequestRecord record({});
  EXPECT_TRUE(record.end(200, true));
  EXPECT_FALSE(record.end(500, false));
  EXPECT_EQ(record.facts().status, 200);
}

}  // namespace
}  // namespace cairn::api
