#include "api/embedding/embedding_run.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>

#include "api/service.h"

namespace cairn::api {
namespace {

/// Work is done when the test says so, on its thread.
class Response final : public net::HttpResponse {
 public:
  void send(int status, std::string_view, std::string body, std::vector<std::pair<std::string, std::string>>) override {
    EXPECT_EQ(status_, 0) << "one answer only";
    status_ = status;
    body_ = std::move(body);
  }
  void begin_events(std::vector<std::pair<std::string, std::string>>, net::StreamFormat) override {}
  void write(std::string_view) override {}
  void end() override {}
  void on_close(std::function<void()> callback) override { close_ = std::move(callback); }
  bool closed() const override { return false; }
  size_t unsent_bytes() const override { return 0; }
  void on_drained(size_t, std::function<void()>) override {}
  void post(std::function<void()> work) override { work_.push_back(std::move(work)); }

  void run() {
    while (!work_.empty()) {
      const auto work = std::exchange(work_.front(), nullptr);
      work_.pop_front();
      work();
    }
  }
  void close() { std::exchange(close_, nullptr)(); }
  int status() const { return status_; }
  const std::string& body() const { return body_; }

 private:
  std::deque<std::function<void()>> work_;
  std::function<void()> close_;
  int status_ = 0;
  std::string body_;
};

class Stream final : public engine::GenerateStream {
 public:
  explicit Stream(engine::Finish finish) : finish_(std::move(finish)) {}
  engine::Events drain() override {
    engine::Events events;
    events.finished = true;
    events.finish = finish_;
    return events;
  }
  engine::Events wait(std::chrono::milliseconds) override { return drain(); }
  void on_events(std::function<void()> notify) override { notify(); }
  void cancel() override {}

 private:
  engine::Finish finish_;
};

/// Its vectors are the prompts. Those of `displaced` lose their place in the queue when they come for the first time.
class Displacing final : public engine::Engine {
 public:
  explicit Displacing(std::vector<int32_t> displaced) : displaced_(std::move(displaced)) {}
  Result<std::unique_ptr<engine::GenerateStream>> submit(engine::GenerateRequest request) override {
    ++submitted;
    engine::Finish finish;
    const int32_t token = index(request.prompt.front());
    if (std::erase(displaced_, token) > 0) {
      finish.reason = engine::FinishReason::kError;
      finish.error = {Code::kQueueFull, "others wait", {}};
    }
    finish.embedding = {static_cast<float>(token)};
    return std::make_unique<Stream>(std::move(finish));
  }
  void stop() override {}
  engine::EngineStats stats() const override { return {}; }
  Result<engine::PrefixReport> prefix_report(std::string_view, const engine::Party&) const override {
    return fail(Code::kNotFound, "none");
  }
  int32_t context_tokens() const override { return 8; }

  int submitted = 0;

 private:
  std::vector<int32_t> displaced_;
};

class Task final : public EmbedTask {
 public:
  explicit Task(size_t texts) : values_(texts, -1) {}
  size_t texts() const override { return values_.size(); }
  Result<void> prepare(size_t i, RequestContext&, engine::GenerateRequest& request) override {
    request.prompt = {TokenId{static_cast<int32_t>(i)}};
    return {};
  }
  Result<void> take(size_t i, std::vector<float> embedding) override {
    EXPECT_EQ(values_[i], -1);
    values_[i] = static_cast<int>(embedding.front());
    return {};
  }
  std::string body(int64_t) override {
    for (size_t i = 0; i < values_.size(); ++i) EXPECT_EQ(values_[i], static_cast<int>(i));
    return "all";
  }
  std::string path(size_t i) const override { return fmt::format("input[{}]", i); }

 private:
  std::vector<int> values_;
};

void start(Displacing& engine, size_t texts, const std::shared_ptr<Response>& response) {
  const loader::Registry registry;
  Service service(registry);
  Exchange exchange{service, {}, response, RequestContext()};
  const auto started = EmbeddingRun::start(exchange, std::shared_ptr<engine::Engine>(std::shared_ptr<void>(), &engine),
                                           {}, std::make_unique<Task>(texts));
  EXPECT_TRUE(started.has_value());
}

TEST(EmbeddingRun, ATextThatMadeRoomInTheQueueIsSubmittedAgain) {
  Displacing engine({2, 4, 39});
  const auto response = std::make_shared<Response>();
  start(engine, 40, response);
  response->run();
  EXPECT_EQ(response->status(), 200);
  EXPECT_EQ(response->body(), "all");
  EXPECT_EQ(engine.submitted, 43);
  response->close();
}

TEST(EmbeddingRun, ItsOnlyTextThatMadeRoomIsAnsweredSo) {
  Displacing engine({0});
  const auto response = std::make_shared<Response>();
  start(engine, 1, response);
  response->run();
  EXPECT_EQ(response->status(), 429);
  response->close();
}

}  // namespace
}  // namespace cairn::api
