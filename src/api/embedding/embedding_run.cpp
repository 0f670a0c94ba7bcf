#include "api/embedding/embedding_run.h"

#include <algorithm>
#include <utility>

#include "api/serialization/json_text.h"
#include "api/service.h"

namespace cairn::api {

Error too_long(const std::string& path, int64_t tokens, int64_t context_tokens, bool can_cut) {
  Error error{Code::kContextLengthExceeded,
              fmt::format("{} has {} tokens, which is too large for the model's context of {}: shorten it{}", path,
                          tokens, context_tokens, can_cut ? ", or send \"truncate\": true" : ""),
              path};
  error.overflow = {.prompt_tokens = tokens, .context_tokens = context_tokens};
  return error;
}

EmbeddingRun::EmbeddingRun(const Exchange& exchange, std::shared_ptr<engine::Engine> engine,
                           engine::GenerateRequest common, std::unique_ptr<EmbedTask> task)
    : engine_(std::move(engine)),
      common_(std::move(common)),
      record_(exchange.context.record() ? exchange.context.record() : std::make_shared<RequestRecord>(RequestFacts{})),
      task_(std::move(task)),
      response_(exchange.response),
      errors_(exchange.errors),
      share_(exchange.service.bytes()) {}

Result<void> EmbeddingRun::start(Exchange& exchange, std::shared_ptr<engine::Engine> engine,
                                 engine::GenerateRequest common, std::unique_ptr<EmbedTask> task) {
  auto run = std::make_shared<EmbeddingRun>(exchange, std::move(engine), std::move(common), std::move(task));
  CAIRN_TRY_VOID(run->prepare(exchange.context));
  ResponseStream::start(exchange.response, std::move(run));
  return {};
}

Progress EmbeddingRun::begin(std::function<void()> wake) {
  wake_ = std::move(wake);
  const Result<void> submitted = submit_some();
  if (submitted && task_->texts() > 0) return Progress::kWaits;
  finish(submitted);
  return Progress::kOver;
}

Progress EmbeddingRun::advance(const Slice& slice) {
  const Result<Progress> collected = collect_some(slice);
  Result<void> result;
  if (collected) {
    result = submit_some();
  } else {
    result = std::unexpected(collected.error());
  }
  if (result && taken_ < task_->texts()) return *collected;
  finish(result);
  return Progress::kOver;
}

void EmbeddingRun::abandon() noexcept {
  slots_.clear();
  response_.reset();  // which answers
}

Result<void> EmbeddingRun::prepare(RequestContext& context) {
  while (prepared_.size() < task_->texts() && !response_->closed()) {
    engine::GenerateRequest request = common_;
    const size_t text = prepared_.size();
    CAIRN_TRY_VOID(task_->prepare(text, context, request));
    const auto tokens = static_cast<int64_t>(request.prompt.size());
    if (tokens > engine_->context_tokens()) {
      return std::unexpected(too_long(task_->path(text), tokens, engine_->context_tokens(), task_->can_cut()));
    }
    tokens_ += tokens;
    const auto bytes =
        static_cast<int64_t>(sizeof(engine::GenerateRequest)) + tokens * static_cast<int64_t>(sizeof(TokenId));
    if (!share_.grow_to(share_.bytes() + bytes)) return std::unexpected(no_request_bytes());
    prepared_.push_back(std::move(request));
  }
  warnings_ = context.wanted_warnings();
  record_->answering(engine_->model(), tokens_, static_cast<int32_t>(task_->texts()), false);
  return {};
}

Result<Progress> EmbeddingRun::collect_some(const Slice& slice) {
  Progress progress = Progress::kWaits;
  for (Slot& slot : slots_) {
    if (slice.over()) {
      progress = Progress::kNoTime;
      break;
    }
    while (slot.events.next() != nullptr) slot.events.take();
    engine::Finish* finish = slot.events.finish();
    if (finish == nullptr) continue;
    CAIRN_TRY_VOID(take(slot.text, std::move(*finish)));
    slot.over = true;
  }
  std::erase_if(slots_, [](const Slot& slot) { return slot.over; });
  return progress;
}

Result<void> EmbeddingRun::take(size_t text, engine::Finish&& finish) {
  if (finish.reason == engine::FinishReason::kError && finish.error.code == Code::kQueueFull && slots_.size() > 1) {
    again_.push_back(text);  // it made room in the queue for somebody else's
    return {};
  }
  if (finish.reason == engine::FinishReason::kError) return std::unexpected(std::move(finish.error));
  if (finish.reason == engine::FinishReason::kCancelled) return std::unexpected(server_stops());
  prepared_[text] = {};
  record_->embedded(finish.timings);
  // A number is kept as text, and once more in the whole of it.
  constexpr int64_t kBytesPerNumber = 2 * 14;
  const auto bytes = static_cast<int64_t>(finish.embedding.size()) * kBytesPerNumber;
  if (!share_.grow_to(share_.bytes() + bytes)) return std::unexpected(no_request_bytes());
  CAIRN_TRY_VOID(task_->take(text, std::move(finish.embedding)));
  ++taken_;
  return {};
}

Result<void> EmbeddingRun::submit_some() {
  while ((submitted_ < prepared_.size() || !again_.empty()) && slots_.size() < kEmbedInFlightMax) {
    const size_t text = again_.empty() ? submitted_ : again_.back();
    engine::GenerateRequest request = prepared_[text];
    auto stream = engine_->submit(std::move(request));
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
    slots_.push_back({EventReader(std::move(*stream)), text});
    slots_.back().events.stream().on_events(wake_);
  }
  return {};
}

void EmbeddingRun::finish(const Result<void>& result) {
  slots_.clear();  // cancels what still runs
  if (result) {
    std::string body = task_->body(tokens_);
    share_.shrink_to(0);  // net/ counts what waits to be sent
    response_->send(200, "application/json", with_warnings(std::move(body), warnings_));
  } else {
    record_->failed(result.error());
    send_error(*response_, result.error(), errors_);
  }
}

}  // namespace cairn::api
