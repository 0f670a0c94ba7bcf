#include "api/http/kept_streams.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace cairn::api {
namespace {

/// A client that reads when the test says so.
class FakeClient final : public net::HttpResponse {
 public:
  void send(int, std::string_view, std::string, std::vector<std::pair<std::string, std::string>>) override {}
  void begin_events(std::vector<std::pair<std::string, std::string>>, net::StreamFormat form) override {
    keep_alive = form.keep_alive;
  }
  void write(std::string_view bytes) override {
    if (gone) return;
    got += bytes;
    unsent += slow ? bytes.size() : 0;
  }
  void end() override { ended = true; }
  void on_close(std::function<void()> callback) override { closes = std::move(callback); }
  bool closed() const override { return gone; }
  size_t unsent_bytes() const override { return unsent; }
  void on_drained(size_t, std::function<void()> callback) override { drained = std::move(callback); }
  void post(std::function<void()> work) override { work(); }
  void go() {
    gone = true;
    if (const auto callback = std::exchange(closes, {})) callback();
  }
  void read() {
    unsent = 0;
    if (const auto callback = std::exchange(drained, {})) callback();
  }

  std::string got;
  std::string_view keep_alive = "?";
  size_t unsent = 0;
  bool slow = false;
  bool gone = false;
  bool ended = false;
  std::function<void()> closes;
  std::function<void()> drained;
};

class KeptStreamsTest : public testing::Test {
 protected:
  // A server's connections do this at their end.
  void TearDown() override {
    for (const auto& client : clients_) client->go();
  }
  /// An answer that has begun. `stopped` counts how often it was told that nobody wants it any more.
  std::shared_ptr<net::HttpResponse> begin(const std::string& id, const std::shared_ptr<FakeClient>& client,
                                           int* stopped = nullptr) {
    clients_.push_back(client);
    auto answer = streams_.keep({"", id}, client, {});
    answer->on_close([stopped] {
      if (stopped != nullptr) ++*stopped;
    });
    answer->begin_events({}, {});
    return answer;
  }
  std::string error_of(const std::string& id, size_t from) {
    const auto followed = streams_.follow({"", id}, from, std::make_shared<FakeClient>());
    return followed ? "" : followed.error().at;
  }
  std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(int64_t{64} << 20);
  KeptStreams streams_{budget_};
  std::vector<std::shared_ptr<FakeClient>> clients_;
};

TEST_F(KeptStreamsTest, AStreamGoesOnWithoutItsClientAndIsReadAgainFromAnyByte) {
  const auto client = std::make_shared<FakeClient>();
  int stopped = 0;
  const auto answer = begin("a", client, &stopped);
  EXPECT_EQ(client->keep_alive, "");
  answer->write("one ");
  client->go();
  EXPECT_FALSE(answer->closed());
  EXPECT_EQ(stopped, 0);
  answer->write("two ");
  const auto other = std::make_shared<FakeClient>();
  ASSERT_TRUE(streams_.follow({"", "a"}, 2, other).has_value());
  EXPECT_EQ(other->got, "e two ");
  answer->write("three");
  EXPECT_FALSE(other->ended);
  answer->end();
  EXPECT_EQ(stopped, 1);
  EXPECT_TRUE(other->ended);
  EXPECT_EQ(other->got, "e two three");
  EXPECT_EQ(client->got, "one ");
  // It is there after its end, too.
  const auto late = std::make_shared<FakeClient>();
  ASSERT_TRUE(streams_.follow({"", "a"}, 0, late).has_value());
  EXPECT_EQ(late->got, "one two three");
  EXPECT_TRUE(late->ended);
}

TEST_F(KeptStreamsTest, WhatHasNotBegunEndsWithItsClient) {
  const auto client = std::make_shared<FakeClient>();
  int stopped = 0;
  const auto answer = streams_.keep({"", "a"}, client, {});
  answer->on_close([&] { ++stopped; });
  client->go();
  EXPECT_TRUE(answer->closed());
  EXPECT_EQ(stopped, 1);
  EXPECT_EQ(error_of("a", 0), "conv_id");
}

TEST_F(KeptStreamsTest, RemovingAStreamAndBeginningItsConversationsNextOneEndIt) {
  for (const bool next : {false, true}) {
    const auto client = std::make_shared<FakeClient>();
    int stopped = 0;
    const auto answer = begin("a", client, &stopped);
    const auto reader = std::make_shared<FakeClient>();
    ASSERT_TRUE(streams_.follow({"", "a"}, 0, reader).has_value());
    if (next)
      begin("a", std::make_shared<FakeClient>());
    else
      streams_.remove({"", "a"});
    EXPECT_EQ(stopped, 1);
    EXPECT_TRUE(client->ended);
    EXPECT_TRUE(reader->ended);
    EXPECT_TRUE(client->got.starts_with(R"(data: {"error":{"message":"the stream was ended)")) << client->got;
    EXPECT_EQ(reader->got, client->got);
    answer->write("lost");
    answer->end();
    EXPECT_EQ(stopped, 1);
    EXPECT_EQ(error_of("a", 0), next ? "" : "conv_id");
  }
  streams_.remove({"", "none"});
}

TEST_F(KeptStreamsTest, AStreamThatIsCutOffEndsWithAnErrorOfItsProtocol) {
  struct Case {
    StreamErrors errors;
    net::StreamFormat form;
    std::string_view begins;
  };
  const net::StreamFormat lines{"application/x-ndjson", ""};
  const Case cases[] = {
      {{ErrorFormat::kOpenAi}, {}, R"(data: {"error":{"message":"the stream was ended)"},
      {{ErrorFormat::kLlamaCpp}, {}, R"(data: {"error":{)"},
      {{ErrorFormat::kOpenAi, true},
       {},
       "event: error\ndata: {\"type\":\"error\",\"code\":\"cancelled\",\"message\":\"the stream was ended"},
      {{ErrorFormat::kAnthropic}, {}, "event: error\ndata: {\"type\":\"error\",\"error\":{"},
      {{ErrorFormat::kOllama}, lines, R"({"error":"the stream was ended)"}};
  for (const auto& [errors, form, begins] : cases) {
    const auto client = std::make_shared<FakeClient>();
    clients_.push_back(client);
    const auto answer = streams_.keep({"", "a"}, client, errors);
    answer->begin_events({}, form);
    streams_.remove({"", "a"});
    EXPECT_TRUE(client->got.starts_with(begins)) << client->got;
    EXPECT_TRUE(client->got.ends_with(form.content_type == lines.content_type ? "}\n" : "}\n\n")) << client->got;
    EXPECT_TRUE(client->ended);
  }
}

TEST_F(KeptStreamsTest, WhoWaitsForAClientThatGoesDoesNotWaitForEver) {
  const auto client = std::make_shared<FakeClient>();
  client->slow = true;
  const auto answer = begin("a", client);
  answer->write("text");
  EXPECT_EQ(answer->unsent_bytes(), 4u);
  int drained = 0;
  answer->on_drained(0, [&] { ++drained; });
  EXPECT_EQ(drained, 0);
  client->go();
  EXPECT_EQ(drained, 1);
  EXPECT_EQ(answer->unsent_bytes(), 0u);
  answer->on_drained(0, [&] { ++drained; });
  EXPECT_EQ(drained, 2);
}

TEST_F(KeptStreamsTest, AReaderThatIsSlowGetsEverythingInTime) {
  const auto answer = begin("a", std::make_shared<FakeClient>());
  const std::string text(100'000, 'x');
  answer->write(text);
  const auto slow = std::make_shared<FakeClient>();
  slow->slow = true;
  ASSERT_TRUE(streams_.follow({"", "a"}, 0, slow).has_value());
  EXPECT_LT(slow->got.size(), text.size());
  answer->end();
  EXPECT_FALSE(slow->ended);
  for (int i = 0; i < 10 && !slow->ended; ++i) slow->read();
  EXPECT_EQ(slow->got, text);
  EXPECT_TRUE(slow->ended);
}

TEST_F(KeptStreamsTest, TheOldestBytesOfALongStreamAreLost) {
  const auto answer = begin("a", std::make_shared<FakeClient>());
  for (int i = 0; i < 5; ++i) answer->write(std::string(size_t{1} << 20, static_cast<char>('a' + i)));
  EXPECT_EQ(error_of("a", 0), "from");
  const auto reader = std::make_shared<FakeClient>();
  ASSERT_TRUE(streams_.follow({"", "a"}, size_t{1} << 20, reader).has_value());
  EXPECT_EQ(reader->got[0], 'b');
  answer->end();
  for (int i = 0; i < 1'000 && !reader->ended; ++i) reader->read();
  EXPECT_EQ(reader->got.size(), kKeptStreamBytesMax);
}

TEST(KeptStreams, BytesOverTheBudgetAreLost) {
  const auto budget = std::make_shared<ByteBudget>(10);
  KeptStreams streams(budget);
  const auto answer = streams.keep({"", "a"}, std::make_shared<FakeClient>(), {});
  answer->begin_events({}, {});
  answer->write("0123456");
  answer->write("789abcdef");
  EXPECT_LE(budget->used(), 10);
  const auto reader = std::make_shared<FakeClient>();
  ASSERT_TRUE(streams.follow({"", "a"}, 9, reader).has_value());
  EXPECT_EQ(reader->got, "9abcdef");
  answer->end();
}

TEST_F(KeptStreamsTest, SoManyStreamsAreKeptAndTheOthersEndWithTheirClients) {
  std::vector<std::shared_ptr<net::HttpResponse>> answers;
  for (size_t i = 0; i < kKeptStreamsMax; ++i)
    answers.push_back(begin(std::to_string(i), std::make_shared<FakeClient>()));
  const auto client = std::make_shared<FakeClient>();
  int stopped = 0;
  const auto more = begin("more", client, &stopped);
  client->go();
  EXPECT_EQ(stopped, 1);
  EXPECT_TRUE(more->closed());
  // One that has ended makes room.
  answers[7]->end();
  begin("more", std::make_shared<FakeClient>());
  EXPECT_EQ(error_of("more", 0), "");
  EXPECT_EQ(error_of("7", 0), "conv_id");
  streams_.clear();
}

TEST_F(KeptStreamsTest, AreFoundByTheIdsThatOneKnowsAndByTheirOwner) {
  const auto answer = begin("a", std::make_shared<FakeClient>());
  answer->write("12345");
  answer->end();
  const auto model = begin("a::tiny", std::make_shared<FakeClient>());
  const auto other = begin("ab", std::make_shared<FakeClient>());
  const std::string ids[] = {"a", "none"};
  const auto found = streams_.list("", ids);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["conversation_id"], "a");
  EXPECT_EQ(found[0]["is_done"], true);
  EXPECT_EQ(found[0]["total_bytes"], 5);
  EXPECT_EQ(found[1]["conversation_id"], "a::tiny");
  EXPECT_EQ(found[1]["is_done"], false);
  EXPECT_EQ(found[1]["completed_at"], 0);
  EXPECT_TRUE(streams_.list("another", ids).empty());
  EXPECT_FALSE(streams_.follow({"another", "a"}, 0, std::make_shared<FakeClient>()).has_value());
  streams_.clear();
}

}  // namespace
}  // namespace cairn::api
