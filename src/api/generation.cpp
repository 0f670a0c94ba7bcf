#include "api/generation.h"

#include <algorithm>

#include "api/errors.h"

namespace cairn::api {

Generation::Generation(std::unique_ptr<AnswerWriter> writer, std::shared_ptr<net::HttpResponse> response)
    : writer_(std::move(writer)), response_(std::move(response)) {}

void Generation::start(Engine& engine, std::vector<GenerateRequest> requests, std::unique_ptr<AnswerWriter> writer,
                       std::shared_ptr<net::HttpResponse> response) {
  auto generation = std::make_shared<Generation>(std::move(writer), std::move(response));
  for (auto& request : requests) {
    auto stream = engine.submit(std::move(request));
    // Streams submitted before are cancelled as `generation` goes.
    if (!stream) return send_error(*generation->response_, stream.error());
    generation->streams_.push_back(std::move(*stream));
  }
  generation->finished_.resize(generation->streams_.size());
  if (generation->writer_->streams()) {
    generation->response_->begin_events();
    generation->response_->write(generation->writer_->begin());
  }
  generation->listen();
}

void Generation::listen() {
  // The exchange owns the generation: when it is over, for whatever reason, the streams go, and with them the requests.
  response_->on_close([self = shared_from_this()] {
    self->over_ = true;
    self->streams_.clear();
    self->response_.reset();
  });
  for (const auto& stream : streams_) {
    stream->on_events([weak = weak_from_this(), response = response_] {
      if (const auto self = weak.lock()) self->wake(*response);
    });
    if (over_) return;
  }
}

void Generation::wake(net::HttpResponse& response) {
  if (pump_posted_.exchange(true, std::memory_order_acq_rel)) return;
  response.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->pump();
  });
}

void Generation::pump() {
  pump_posted_.store(false, std::memory_order_release);
  if (over_) return;
  std::string bytes;
  for (size_t choice = 0; choice < streams_.size(); ++choice) {
    if (finished_[choice]) continue;
    Events events = streams_[choice]->drain();
    for (auto& token : events.tokens) bytes += writer_->token(static_cast<int>(choice), std::move(token));
    if (!events.finished) continue;
    if (events.finish.reason == FinishReason::kError || events.finish.reason == FinishReason::kCancelled) {
      const Error stopped{Code::kUnavailable, "the server is stopping", {}};
      response_->write(bytes);
      return fail(events.finish.reason == FinishReason::kError ? events.finish.error : stopped);
    }
    finished_[choice] = true;
    bytes += writer_->finish(static_cast<int>(choice), std::move(events.finish));
  }
  const bool all = std::ranges::all_of(finished_, [](bool finished) { return finished; });
  if (all) {
    over_ = true;
    bytes += writer_->done();
  }
  if (writer_->streams()) {
    response_->write(bytes);
    if (all) response_->end();
  } else if (all) {
    response_->send(200, "application/json", std::move(bytes));
  }
}

void Generation::fail(const Error& error) {
  over_ = true;
  if (writer_->streams()) {
    response_->write(writer_->failure(error));
    response_->end();
  } else {
    send_error(*response_, error);
  }
  streams_.clear();  // cancels what still runs
}

}  // namespace cairn::api
