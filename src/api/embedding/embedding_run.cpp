#include "api/embedding/embedding_run.h"

#include <algorithm>
#include <utility>

#include "api/errors.h"
#include "api/post_once.h"

namespace cairn::api {

using std::chrono::steady_clock;

EmbeddingRun::EmbeddingRun(Engine& engine, GenerateRequest common, std::unique_ptr<EmbedTask> task,
                           std::shared_ptr<net::HttpResponse> response, ByteShare share)
    : engine_(engine),
      common_(std::move(common)),
      task_(std::move(task)),
      response_(std::move(response)),
      share_(std::move(share)) {}

void EmbeddingRun::start(Engine& engine, GenerateRequest common, std::unique_ptr<EmbedTask> task,
                         std::shared_ptr<net::HttpResponse> response, ByteShare share) {
  auto run = std::make_shared<EmbeddingRun>(engine, std::move(common), std::move(task), response, std::move(share));
  if (const Result<void> prepared = run->prepare(); !prepared)
    return send_error(*response, prepared.error(), run->task_->error_shape());
  response->post([run = std::move(run)] { run->guarded([&] { run->begin(); }); });
}

void EmbeddingRun::begin() {
  // The exchange owns the run: when it is over, for whatever reason, the streams go, and with them the requests.
  response_->on_close([self = shared_from_this()] {
    self->over_ = true;
    self->slots_.clear();
    self->response_.reset();
    self->share_ = {};
  });
  pump();
}

void EmbeddingRun::guarded(FunctionRef<void()> work) noexcept {
  try {
    try {
      work();
    } catch (...) {
      if (response_) finish(std::unexpected(thrown_error()));
    }
  } catch (...) {
    over_ = true;
    response_.reset();  // which answers
  }
}

void EmbeddingRun::wake(net::HttpResponse& response) {
  post_once(turn_posted_, response, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->guarded([&] { self->pump(); });
  });
}

void EmbeddingRun::pump() {
  turn_posted_.store(false, std::memory_order_release);
  if (over_) return;
  Result<void> result = collect_some(steady_clock::now() + kEmbedTurn);
  if (result) result = submit_some();
  if (!result || taken_ == task_->texts()) finish(result);
}

Result<void> EmbeddingRun::prepare() {
  while (prepared_.size() < task_->texts() && !response_->closed()) {
    GenerateRequest request = common_;
    const size_t text = prepared_.size();
    CAIRN_TRY_VOID(task_->prepare(text, request));
    const auto tokens = static_cast<int64_t>(request.prompt.size());
    if (tokens > engine_.context_tokens()) {
      return fail_at(task_->path(text), Code::kContextLengthExceeded,
                     "{} has {} tokens, but the model's context has {}: shorten it, or send \"truncate\": true",
                     task_->path(text), tokens, engine_.context_tokens());
    }
    tokens_ += tokens;
    const auto bytes = static_cast<int64_t>(sizeof(GenerateRequest)) + tokens * static_cast<int64_t>(sizeof(TokenId));
    if (!share_.grow_to(share_.bytes() + bytes)) return std::unexpected(no_request_bytes());
    prepared_.push_back(std::move(request));
  }
  return {};
}

// Takes what has come; asks for another turn if that takes too long.
Result<void> EmbeddingRun::collect_some(steady_clock::time_point end) {
  for (Slot& slot : slots_) {
    if (steady_clock::now() > end) {
      wake(*response_);
      break;
    }
    Events events = slot.stream->drain();
    if (!events.finished) continue;
    slot.stream.reset();
    Finish& done = events.finish;
    if (done.reason == FinishReason::kError && done.error.code == Code::kQueueFull && slots_.size() > 1) {
      again_.push_back(slot.text);  // it made room in the queue for somebody else's
      continue;
    }
    if (done.reason == FinishReason::kError) return std::unexpected(std::move(done.error));
    if (done.reason == FinishReason::kCancelled) return fail(Code::kUnavailable, "the server is stopping");
    prepared_[slot.text] = {};
    // As text, and once more in the whole of it.
    constexpr int64_t kBytesPerNumber = 2 * 14;
    const auto bytes = static_cast<int64_t>(done.embedding.size()) * kBytesPerNumber;
    if (!share_.grow_to(share_.bytes() + bytes)) return std::unexpected(no_request_bytes());
    CAIRN_TRY_VOID(task_->take(slot.text, std::move(done.embedding)));
    ++taken_;
  }
  std::erase_if(slots_, [](const Slot& slot) { return slot.stream == nullptr; });
  return {};
}

Result<void> EmbeddingRun::submit_some() {
  while ((submitted_ < prepared_.size() || !again_.empty()) && slots_.size() < kEmbedInFlightMax) {
    const size_t text = again_.empty() ? submitted_ : again_.back();
    GenerateRequest request = prepared_[text];
    auto stream = engine_.submit(std::move(request));
    if (!stream) {
      // Others fill the queue: the next one goes when one of ours comes back.
      if (stream.error().code == Code::kQueueFull && !slots_.empty()) return {};
      Error error = std::move(stream).error();
      if (error.at.starts_with("prompt")) error.at = task_->path(text) + error.at.substr(6);
      return std::unexpected(std::move(error));
    }
    if (again_.empty()) {
      ++submitted_;
    } else {
      again_.pop_back();
    }
    slots_.push_back({std::move(*stream), text});
    slots_.back().stream->on_events([weak = weak_from_this(), response = response_] {
      if (const auto self = weak.lock()) self->wake(*response);
    });
  }
  return {};
}

void EmbeddingRun::finish(const Result<void>& result) {
  over_ = true;
  slots_.clear();  // cancels what still runs
  if (result) {
    std::string body = task_->body(tokens_);
    share_.shrink_to(0);  // net/ counts what waits to be sent
    response_->send(200, "application/json", std::move(body));
  } else {
    send_error(*response_, result.error(), task_->error_shape());
  }
}

}  // namespace cairn::api
