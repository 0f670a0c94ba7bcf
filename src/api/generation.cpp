#include "api/generation.h"

#include <algorithm>

#include "api/errors.h"
#include "net/failure_log.h"

namespace cairn::api {

Generation::Generation(std::unique_ptr<AnswerWriter> writer, std::shared_ptr<net::HttpResponse> response)
    : writer_(std::move(writer)), response_(std::move(response)) {}

void Generation::start(Engine& engine, std::vector<GenerateRequest> requests, std::unique_ptr<AnswerWriter> writer,
                       std::shared_ptr<net::HttpResponse> response) {
  auto generation = std::make_shared<Generation>(std::move(writer), std::move(response));
  for (auto& request : requests) {
    auto stream = engine.submit(std::move(request));
    // Streams submitted before are cancelled as `generation` goes.
    if (!stream) return send_error(*generation->response_, stream.error(), generation->writer_->error_shape());
    generation->choices_.push_back({std::move(*stream), {}, 0, false});
  }
  if (generation->writer_->streams()) {
    generation->response_->begin_events({}, generation->writer_->stream_form());
  }
  generation->writer_->on_start([weak = generation->weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel();
  });
  const std::string beginning = generation->writer_->begin();
  if (generation->writer_->streams()) generation->response_->write(beginning);
  generation->listen();
}

void Generation::listen() {
  // The exchange owns the generation: when it is over, for whatever reason, the streams go, and with them the requests.
  response_->on_close([self = shared_from_this()] {
    self->over_ = true;
    self->choices_.clear();
    self->response_.reset();
  });
  for (const auto& choice : choices_) {
    choice.stream->on_events([weak = weak_from_this(), response = response_] {
      if (const auto self = weak.lock()) self->wake(*response);
    });
    if (over_) return;
  }
}

void Generation::cancel() {
  cancelled_ = true;
  for (const auto& choice : choices_) choice.stream->cancel();
}

void Generation::wake(net::HttpResponse& response) {
  if (pump_posted_.exchange(true, std::memory_order_acq_rel)) return;
  response.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->pump();
  });
}

bool Generation::forward(size_t index, size_t room, std::string& bytes) {
  Choice& choice = choices_[index];
  if (choice.finished) return true;
  Events& events = choice.events;
  if (choice.next == events.tokens.size() && !events.finished) {
    events = choice.stream->drain();
    choice.next = 0;
  }
  for (; choice.next < events.tokens.size(); ++choice.next) {
    if (bytes.size() >= room) return false;
    bytes += writer_->token(static_cast<int>(index), std::move(events.tokens[choice.next]));
  }
  if (!events.finished) return true;
  if (bytes.size() >= room) return false;
  choice.finished = true;
  if (events.finish.reason == FinishReason::kError) {
    error_ = std::move(events.finish.error);
  } else if (events.finish.reason == FinishReason::kCancelled) {
    error_ = cancelled_ ? Error{Code::kCancelled, "the answer has been cancelled", {}}
                        : Error{Code::kUnavailable, "the server is stopping", {}};
  } else {
    bytes += writer_->finish(static_cast<int>(index), std::move(events.finish));
  }
  events = {};
  return true;
}

void Generation::pump() {
  pump_posted_.store(false, std::memory_order_release);
  if (over_) return;
  const bool streams = writer_->streams();
  const size_t unsent = response_->unsent_bytes();
  const size_t room = !streams ? SIZE_MAX : kUnsentBytesMax - std::min(kUnsentBytesMax, unsent);
  std::string bytes;
  bool all_written = true;
  for (size_t i = 0; i < choices_.size() && all_written && !error_; ++i) {
    const size_t index = (first_ + i) % choices_.size();
    all_written = forward(index, room, bytes);
    if (!all_written) first_ = index;
  }
  if (error_) {
    if (streams) response_->write(bytes);
    return fail(*error_);
  }
  const bool all_finished = all_written && std::ranges::all_of(choices_, &Choice::finished);
  if (all_finished) {
    over_ = true;
    bytes += writer_->done();
  }
  if (streams) {
    response_->write(bytes);
    if (all_finished) response_->end();
    if (!all_written) wait_for_client();
  } else if (all_finished) {
    response_->send(200, "application/json", std::move(bytes));
  }
}

// Half the bound: a client that reads slowly is not woken for every few bytes.
void Generation::wait_for_client() {
  response_->on_drained(kUnsentBytesMax / 2, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->pump();
  });
}

void Generation::fail(const Error& error) {
  over_ = true;
  if (writer_->streams()) {
    if (const int status = wire_error(error.code).status; net::is_failure(status))
      net::log_failure(response_->request_id(), status, error.message);
    response_->write(writer_->failure(error));
    response_->end();
  } else {
    send_error(*response_, error, writer_->error_shape());
  }
  choices_.clear();  // cancels what still runs
}

}  // namespace cairn::api
