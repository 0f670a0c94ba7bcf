#include "api/stream/response_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace cairn::api {
namespace {

using testing::ElementsAre;

/// A client that reads when the test says so, on the test's thread.
class FakeOutput final : public net::ClientOutput {
 public:
  size_t unsent_bytes() const override { return unsent; }
  void on_drained(size_t bytes, std::function<void()> callback) override {
    drained_at = bytes;
    drained = std::move(callback);
  }
  void post(std::function<void()> work) override { posted.push_back(std::move(work)); }
  void run_posted() {
    for (const auto& work : std::exchange(posted, {})) work();
  }

  size_t unsent = 0;
  size_t drained_at = 0;
  std::function<void()> drained;
  std::deque<std::function<void()>> posted;
};

/// Does what the test has scripted, and writes down its name.
class FakeTask final : public ResponseTask {
 public:
  FakeTask(std::string name, std::vector<std::string>& log) : name_(std::move(name)), log_(log) {}
  ~FakeTask() override { log_.push_back(name_ + " dropped"); }
  Progress begin(std::function<void()> wake) override {
    wake_ = std::move(wake);
    return Progress::kWaits;
  }
  Progress advance(const Slice& slice) override {
    log_.push_back(name_);
    room = slice.room;
    if (throws) throw std::runtime_error("scripted");
    return std::exchange(next, Progress::kWaits);
  }
  void fail(const Error& error) override {
    if (fails_to_fail) throw std::bad_alloc();
    log_.push_back(name_ + " " + error.message);
  }
  void abandon() noexcept override { log_.push_back(name_ + " abandoned"); }
  void wake() const { wake_(); }

  Progress next = Progress::kWaits;
  bool throws = false;
  bool fails_to_fail = false;
  size_t room = 0;

 private:
  std::string name_;
  std::vector<std::string>& log_;
  std::function<void()> wake_;
};

class ResponseStreamTest : public testing::Test {
 protected:
  ~ResponseStreamTest() override { output_->posted.clear(); }  // what waits there holds the output
  FakeTask& add(const std::string& name) {
    auto task = std::make_shared<FakeTask>(name, log_);
    FakeTask& added = *task;
    stream_->add(std::move(task));
    return added;
  }
  std::vector<std::string> log() { return std::exchange(log_, {}); }

  std::vector<std::string> log_;
  int over_ = 0;
  std::shared_ptr<FakeOutput> output_ = std::make_shared<FakeOutput>();
  std::shared_ptr<ResponseStream> stream_ =
      std::make_shared<ResponseStream>(output_, [this](const ResponseTask&) { ++over_; });
};

TEST_F(ResponseStreamTest, WakeUpsOfAllTasksAreOnePump) {
  const FakeTask& a = add("a");
  const FakeTask& b = add("b");
  a.wake();
  b.wake();
  a.wake();
  EXPECT_EQ(output_->posted.size(), 1u);
  output_->run_posted();
  EXPECT_THAT(log(), ElementsAre("a", "b"));
  EXPECT_EQ(a.room, kUnsentBytesMax);
  b.wake();
  EXPECT_EQ(output_->posted.size(), 1u);
}

TEST_F(ResponseStreamTest, ATaskThatThrowsEndsAlone) {
  FakeTask& a = add("a");
  const FakeTask& b = add("b");
  a.throws = true;
  b.wake();
  output_->run_posted();
  EXPECT_THAT(log(), ElementsAre("a", "a unexpected: scripted", "a dropped", "b"));
  EXPECT_EQ(over_, 1);
  b.wake();
  output_->run_posted();
  EXPECT_THAT(log(), ElementsAre("b"));
}

TEST_F(ResponseStreamTest, WithoutMemoryForTheErrorTheClientIsLetGo) {
  FakeTask& a = add("a");
  add("b");
  a.throws = true;
  a.fails_to_fail = true;
  a.wake();
  output_->run_posted();
  EXPECT_THAT(log(), testing::UnorderedElementsAre("a", "a abandoned", "b dropped", "a dropped"));
  EXPECT_EQ(output_.use_count(), 1) << "what drops the last reference says so to the client";
}

TEST_F(ResponseStreamTest, ATaskWithoutRoomGoesOnFirstOnceTheClientHasRead) {
  add("a");
  FakeTask& b = add("b");
  const FakeTask& c = add("c");
  output_->unsent = kUnsentBytesMax + 1;
  b.next = Progress::kNoRoom;
  b.wake();
  output_->run_posted();
  EXPECT_THAT(log(), ElementsAre("a", "b")) << "nothing is taken from the engine while nothing can be written";
  EXPECT_EQ(b.room, 0u);
  EXPECT_EQ(output_->drained_at, kUnsentBytesMax / 2);
  output_->unsent = kUnsentBytesMax / 2;
  output_->drained();
  EXPECT_THAT(log(), ElementsAre("b", "c", "a"));
  EXPECT_EQ(c.room, kUnsentBytesMax / 2);
}

TEST_F(ResponseStreamTest, ATaskWithoutTimeGoesOnFirstInTheNextPump) {
  add("a");
  FakeTask& b = add("b");
  b.next = Progress::kNoTime;
  b.wake();
  output_->run_posted();
  EXPECT_THAT(log(), ElementsAre("a", "b"));
  EXPECT_EQ(output_->posted.size(), 1u) << "others of the server's thread come first";
  output_->run_posted();
  EXPECT_THAT(log(), ElementsAre("b", "a"));
}

TEST_F(ResponseStreamTest, ATaskIsDroppedAtItsEndAndWhenTheClientGoes) {
  FakeTask& a = add("a");
  const FakeTask& b = add("b");
  a.next = Progress::kOver;
  a.wake();
  output_->run_posted();
  EXPECT_THAT(log(), ElementsAre("a", "a dropped", "b"));
  EXPECT_EQ(over_, 1);
  b.wake();
  stream_->close();
  EXPECT_THAT(log(), ElementsAre("b dropped"));
  output_->run_posted();  // a wake-up on its way finds nothing
  add("c");
  EXPECT_THAT(log(), ElementsAre("c dropped"));
  EXPECT_EQ(over_, 1);
}

}  // namespace
}  // namespace cairn::api
