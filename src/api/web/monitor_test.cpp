#include "api/web/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/service.h"
#include "base/log.h"

namespace cairn::api::web {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// Remembers its answer. `leave` is the client's going.
class WatchedResponse final : public net::HttpResponse {
 public:
  void send(int status, std::string_view, std::string body, std::vector<std::pair<std::string, std::string>>) override {
    status_ = status;
    body_ = std::move(body);
  }
  void begin_events(std::vector<std::pair<std::string, std::string>>, net::StreamFormat) override { status_ = 200; }
  void write(std::string_view bytes) override { events_.emplace_back(bytes); }
  void end() override { ended_ = true; }
  void on_close(std::function<void()> callback) override { on_close_ = std::move(callback); }
  bool closed() const override { return false; }
  size_t unsent_bytes() const override { return unsent_; }
  void on_drained(size_t, std::function<void()>) override {}
  void post(std::function<void()>) override {}

  void leave() { std::exchange(on_close_, {})(); }
  json event(size_t index) const { return json::parse(events_.at(index).substr(std::string_view("data: ").size())); }

  int status_ = 0;
  std::string body_;
  std::vector<std::string> events_;
  bool ended_ = false;
  size_t unsent_ = 0;

 private:
  std::function<void()> on_close_;
};

class FakeAnswer final : public Cancellable {
 public:
  void cancel() override { ++cancelled_; }
  int cancelled_ = 0;
};

class MonitorTest : public testing::Test {
 protected:
  using Handler = Result<void> (Monitor::*)(Exchange& exchange);
  std::shared_ptr<WatchedResponse> ask(Handler handler, std::string id = {}) {
    auto response = std::make_shared<WatchedResponse>();
    Exchange exchange{service_, {}, response, RequestContext({.id = std::move(id)})};
    answer(exchange, [&](Exchange& of) { return (monitor_.*handler)(of); });
    return response;
  }
  std::shared_ptr<WatchedResponse> watch() { return ask(&Monitor::handle_stream); }
  loader::Registry registry_;
  Service service_{registry_};
  RunningRequests requests_;
  Monitor monitor_{registry_, requests_};
};

TEST_F(MonitorTest, RunningRequestsAreListedFromTheOldestOnAndCancelledById) {
  FakeAnswer first, second;
  const auto now = std::chrono::steady_clock::now();
  using namespace std::chrono_literals;
  RunningRequest* young = requests_.add({.id = "b", .model = "m", .choices = 2, .begun = now - 1s}, second);
  ASSERT_NE(young, nullptr);
  ASSERT_NE(requests_.add({.id = "a", .model = "m", .begun = now - 2s}, first), nullptr);
  EXPECT_EQ(requests_.add({.id = "a", .model = "m"}, second), nullptr);
  young->tokens = 3;
  young->first_token = now;
  const json list = json::parse(ask(&Monitor::handle_requests)->body_)["data"];
  ASSERT_EQ(list.size(), 2);
  EXPECT_EQ(list[0]["id"], "a");
  EXPECT_TRUE(list[0]["first_token_ms"].is_null());
  EXPECT_EQ(list[1]["tokens"], 3);
  EXPECT_DOUBLE_EQ(list[1]["first_token_ms"].get<double>(), 1e3);
  EXPECT_EQ(ask(&Monitor::handle_cancel, "b")->status_, 200);
  EXPECT_EQ(second.cancelled_, 1);
  EXPECT_EQ(first.cancelled_, 0);
  requests_.remove("b");
  const auto gone = ask(&Monitor::handle_cancel, "b");
  EXPECT_EQ(gone->status_, 404);
  EXPECT_THAT(gone->body_, HasSubstr("no request \\\"b\\\" runs"));
}

TEST_F(MonitorTest, AStreamTellsEachLineOfTheLogOnceAndPausesForWhoDoesNotRead) {
  log_info("a line before the stream");
  const auto stream = watch();
  EXPECT_EQ(stream->event(0)["log"].back()["text"], "a line before the stream");
  log_warning("a line during the stream");
  monitor_.tick();
  EXPECT_EQ(stream->event(1)["log"].size(), 1);
  EXPECT_EQ(stream->event(1)["log"][0]["text"], "a line during the stream");
  EXPECT_EQ(stream->event(1)["log"][0]["level"], "warning");
  stream->unsent_ = kMonitorUnsentBytesMax + 1;
  monitor_.tick();
  EXPECT_EQ(stream->events_.size(), 2);
  stream->leave();
  stream->unsent_ = 0;
  monitor_.tick();
  EXPECT_EQ(stream->events_.size(), 2);
}

TEST_F(MonitorTest, StreamsHaveALimitAndEndWithTheServer) {
  std::vector<std::shared_ptr<WatchedResponse>> streams;
  for (size_t i = 0; i < kMonitorStreamsMax; ++i) streams.push_back(watch());
  EXPECT_EQ(streams.back()->status_, 200);
  EXPECT_EQ(watch()->status_, 503);
  streams.front()->leave();
  EXPECT_EQ(watch()->status_, 200);
  monitor_.close();
  monitor_.tick();
  EXPECT_TRUE(streams.back()->ended_);
}

}  // namespace
}  // namespace cairn::api::web
