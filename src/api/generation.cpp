#include "api/generation.h"

#include <algorithm>
#include <utility>

#include "api/errors.h"
#include "api/post_once.h"
#include "engine/output/event_channel.h"
#include "net/failure_log.h"

namespace cairn::api {

int64_t held_bytes(const GenerateRequest& request) {
  const auto pending = static_cast<int64_t>(kPendingTokensMax);
  const int64_t tokens = request.max_tokens < 0 ? pending : std::min<int64_t>(request.max_tokens, pending);
  const int64_t each = sizeof(TokenEvent) + sizeof(TokenLogprob) * static_cast<int64_t>(request.sampling.top_logprobs);
  return 2 * static_cast<int64_t>(request.prompt.size() * sizeof(TokenId)) + tokens * each;
}

Generation::Generation(std::unique_ptr<AnswerWriter> writer, std::shared_ptr<net::HttpResponse> response,
                       ByteShare share)
    : writer_(std::move(writer)), response_(std::move(response)), share_(std::move(share)) {}

void Generation::start(Engine& engine, std::vector<GenerateRequest> requests, std::unique_ptr<AnswerWriter> writer,
                       std::shared_ptr<net::HttpResponse> response, ByteShare share) {
  int64_t bytes = share.bytes();
  for (const auto& request : requests) bytes += held_bytes(request);
  const bool fits = share.grow_to(bytes);
  auto generation = std::make_shared<Generation>(std::move(writer), std::move(response), std::move(share));
  net::HttpResponse& to = *generation->response_;
  if (!fits) return send_error(to, no_request_bytes(), generation->writer_->error_shape());
  auto all = std::make_shared<std::vector<GenerateRequest>>(std::move(requests));
  to.post([generation = std::move(generation), all = std::move(all), &engine] {
    generation->guarded([&] { generation->begin(engine, std::move(*all)); });
  });
}

void Generation::guarded(FunctionRef<void()> work) noexcept {
  try {
    try {
      work();
    } catch (...) {
      if (said_all_) return;
      over_ = true;
      choices_.clear();
      error_ = thrown_error();
      say_end();
    }
  } catch (...) {
    // Not even memory for the error: a stream ends without its last event, and dropping the response says the rest.
    over_ = true;
    if (response_) response_->end();
    response_.reset();
  }
}

void Generation::begin(Engine& engine, std::vector<GenerateRequest> requests) {
  if (response_->closed()) return;
  for (auto& request : requests) {
    auto stream = engine.submit(std::move(request));
    // Streams submitted before are cancelled as this goes.
    if (!stream) return send_error(*response_, stream.error(), writer_->error_shape());
    choices_.push_back({EventReader(std::move(*stream)), false});
  }
  if (writer_->streams()) response_->begin_events({}, writer_->stream_form());
  writer_->on_start([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel();
  });
  const std::string beginning = writer_->begin();
  if (writer_->streams()) response_->write(beginning);
  listen();
}

void Generation::listen() {
  // The exchange owns the generation: when it is over, for whatever reason, the streams go, and with them the requests.
  response_->on_close([self = shared_from_this()] {
    self->over_ = true;
    self->choices_.clear();
    self->response_.reset();
    self->share_ = {};
  });
  for (auto& choice : choices_) {
    choice.events.stream().on_events([weak = weak_from_this(), response = response_] {
      if (const auto self = weak.lock()) self->wake(*response);
    });
    if (over_) return;
  }
}

void Generation::cancel() {
  cancelled_ = true;
  for (auto& choice : choices_) choice.events.stream().cancel();
}

void Generation::wake(net::HttpResponse& response) {
  post_once(pump_posted_, response, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->guarded([&] { self->pump(); });
  });
}

void Generation::hold(const TokenEvent& event) {
  const auto bytes = static_cast<int64_t>(2 * event.text.size() + sizeof(TokenId)) +
                     writer_->kept_logprob_bytes() * static_cast<int64_t>(event.top.size());
  if (!share_.grow_to(share_.bytes() + bytes)) error_ = no_request_bytes();
}

bool Generation::forward(size_t index, size_t room, std::string& bytes) {
  Choice& choice = choices_[index];
  if (choice.finished) return true;
  EventReader& events = choice.events;
  while (const TokenEvent* event = error_ ? nullptr : events.next()) {
    if (bytes.size() >= room || std::chrono::steady_clock::now() > turn_end_) return false;
    hold(*event);
    bytes += writer_->token(static_cast<int>(index), events.take());
  }
  Finish* finish = error_ ? nullptr : events.finish();
  if (finish == nullptr) return true;
  if (bytes.size() >= room) return false;
  choice.finished = true;
  if (finish->reason == FinishReason::kError) {
    error_ = std::move(finish->error);
  } else if (finish->reason == FinishReason::kCancelled) {
    error_ = cancelled_ ? Error{Code::kCancelled, "the answer has been cancelled", {}}
                        : Error{Code::kUnavailable, "the server is stopping", {}};
  } else {
    bytes += writer_->finish(static_cast<int>(index), std::move(*finish));
  }
  return true;
}

void Generation::pump() {
  pump_posted_.store(false, std::memory_order_release);
  if (over_) return;
  const bool streams = writer_->streams();
  const size_t unsent = response_->unsent_bytes();
  const size_t room = !streams ? SIZE_MAX : kUnsentBytesMax - std::min(kUnsentBytesMax, unsent);
  turn_end_ = std::chrono::steady_clock::now() + kPumpTurn;
  std::string bytes;
  bool all_written = true;
  for (size_t i = 0; i < choices_.size() && all_written && !error_; ++i) {
    const size_t index = (first_ + i) % choices_.size();
    all_written = forward(index, room, bytes);
    if (!all_written) first_ = index;
  }
  if (streams) response_->write(bytes);
  if (error_ || (all_written && std::ranges::all_of(choices_, &Choice::finished))) return end();
  if (all_written) return;
  if (bytes.size() >= room) {
    wait_for_client();
  } else {
    wake(*response_);
  }
}

// Half the bound: a client that reads slowly is not woken for every few bytes.
void Generation::wait_for_client() {
  response_->on_drained(kUnsentBytesMax / 2, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->guarded([&] { self->pump(); });
  });
}

void Generation::end() {
  over_ = true;
  choices_.clear();  // cancels what still runs
  const bool waits = writer_->settle(error_ ? &*error_ : nullptr, [weak = weak_from_this(), response = response_] {
    response->post([weak] {
      if (const auto self = weak.lock()) self->guarded([&] { self->say_end(); });
    });
  });
  if (!waits) say_end();
}

void Generation::say_end() {
  if (!response_) return;  // the client left meanwhile
  const bool streams = writer_->streams();
  if (error_ && !streams) {
    send_error(*response_, *error_, writer_->error_shape());
    said_all_ = true;
    return;
  }
  if (error_) {
    if (const int status = wire_error(error_->code).status; net::is_failure(status))
      net::log_failure(response_->request_id(), status, error_->message);
  }
  std::string bytes = error_ ? writer_->failure(*error_) : writer_->done();
  if (streams) {
    response_->write(bytes);
    response_->end();
  } else {
    share_.shrink_to(0);  // net/ counts what waits to be sent
    response_->send(200, "application/json", std::move(bytes));
  }
  said_all_ = true;
}

}  // namespace cairn::api
