#include "net/http/http_response.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "net/failure_log.h"

#include "net/exceptions.h"

namespace cairn::net {
namespace {

constexpr int kStreamStatus = 200;

}  // namespace

ResponseState::ResponseState(boost::asio::any_io_executor executor, size_t unsent_bytes_max,
                             std::shared_ptr<ByteBudget> budget, const HttpErrorBody* error_body,
                             std::string request_id)
    : executor_(executor),
      wake_(executor),
      break_signal_(executor),
      unsent_bytes_max_(unsent_bytes_max),
      error_body_(error_body),
      request_id_(std::move(request_id)),
      share_(std::move(budget)) {}

// The connection's coroutine and this posted handler run on the same thread, and the coroutine looks for work right
// before it waits, so a wake-up cannot fall between the two.
void ResponseState::signal() noexcept {
  try {
    boost::asio::post(executor_, [self = shared_from_this()] {
      self->wake_.cancel();
      if (self->broken()) self->break_signal_.cancel();
    });
  } catch (...) {
    log_exception("waking a connection", std::current_exception());
  }
}

FullResponse ResponseState::error_answer(int status, std::string_view message) const {
  FullResponse answer{status, "application/json", error_body_ == nullptr ? "" : (*error_body_)(status, message), {}};
  if (status == 503) answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

bool ResponseState::hold(size_t bytes) {
  const int64_t counted = std::max<int64_t>(0, static_cast<int64_t>(bytes) - kUncountedBytes);
  share_.shrink_to(counted);
  return share_.grow_to(counted);
}

void ResponseState::send(FullResponse answer) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || answered_) return;
    if (!hold(answer.body.size())) {
      answer = error_answer(503, "the server has no memory left for this answer: others wait to be read; try again");
    }
    answered_ = true;
    state_.status = answer.status;
    if (is_failure(answer.status)) log_failure(request_id_, answer.status, answer.body);
    work_.whole = std::move(answer);
    work_.ended = true;
  }
  signal();
}

void ResponseState::begin_events(HeaderList headers, StreamFormat form) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || answered_) return;
    answered_ = streaming_ = true;
    state_.status = kStreamStatus;
    work_.stream_headers = std::move(headers);
    work_.stream_format = form;
  }
  signal();
}

void ResponseState::write(std::string_view bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !streaming_ || work_.ended || overflowed_ || thrown_ || bytes.empty()) return;
    if (unsent_bytes_ + bytes.size() > unsent_bytes_max_ || !hold(unsent_bytes_ + bytes.size())) {
      overflowed_ = true;
    } else {
      work_.bytes += bytes;
    }
    unsent_bytes_ += bytes.size();
  }
  signal();
}

void ResponseState::end() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !streaming_ || work_.ended || thrown_) return;  // an incomplete answer must not look complete
    work_.ended = true;
  }
  signal();
}

void ResponseState::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      on_close_ = std::move(callback);
      return;
    }
  }
  call(callback);
}

bool ResponseState::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void ResponseState::on_end(std::function<void(const ExchangeState&)> callback) {
  const std::lock_guard lock(mutex_);
  on_end_ = std::move(callback);
}

void ResponseState::delivered() {
  const std::lock_guard lock(mutex_);
  state_.delivered = true;
}

size_t ResponseState::unsent_bytes() const {
  const std::lock_guard lock(mutex_);
  return unsent_bytes_;
}

void ResponseState::on_drained(size_t bytes, std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    on_drained_ = std::move(callback);
    drained_bytes_ = bytes;
    if (unsent_bytes_ > bytes) return;
  }
  post([self = shared_from_this()] { self->sent(0); });
}

std::function<void()> ResponseState::take_drained() {
  if (closed_ || unsent_bytes_ > drained_bytes_) return {};
  return std::exchange(on_drained_, {});
}

void ResponseState::post(std::function<void()> work) {
  boost::asio::post(executor_, [self = shared_from_this(), work = std::move(work)] { self->call(work); });
}

void ResponseState::call(const std::function<void()>& callback) noexcept {
  try {
    if (callback) callback();
  } catch (...) {
    thrown(std::current_exception());
  }
}

void ResponseState::thrown(const std::exception_ptr& exception) noexcept {
  log_exception("an exchange", exception);
  try {
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || work_.ended) return;
      thrown_ = answered_ || error_body_ == nullptr;
      if (!answered_) {
        const bool memory = is_out_of_memory(exception);
        answered_ = work_.ended = true;
        state_.status = memory ? 503 : 500;
        work_.whole = error_answer(state_.status, memory ? "out of memory; try again" : "internal error");
      }
    }
    signal();
  } catch (...) {
    log_exception("the end of an exchange", std::current_exception());
  }
}

bool ResponseState::overflowed() const {
  const std::lock_guard lock(mutex_);
  return overflowed_;
}

bool ResponseState::broken() const {
  const std::lock_guard lock(mutex_);
  return overflowed_ || thrown_;
}

PendingResponse ResponseState::take() {
  const std::lock_guard lock(mutex_);
  PendingResponse taken = std::move(work_);
  work_ = {};
  work_.ended = taken.ended;
  return taken;
}

void ResponseState::sent(size_t bytes) {
  std::function<void()> drained;
  {
    const std::lock_guard lock(mutex_);
    unsent_bytes_ -= bytes;
    hold(unsent_bytes_);  // less than before
    drained = take_drained();
  }
  call(drained);
}

bool ResponseState::has_work() const {
  const std::lock_guard lock(mutex_);
  return work_.whole || work_.stream_headers || !work_.bytes.empty() || work_.ended;
}

void ResponseState::close() noexcept {
  std::function<void()> callback, never;
  std::function<void(const ExchangeState&)> end;
  ExchangeState state;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    callback = std::exchange(on_close_, {});
    never = std::exchange(on_drained_, {});
    end = std::exchange(on_end_, {});
    state = state_;
  }
  call(callback);
  if (end) call([&] { end(state); });
}

ResponseHandle::ResponseHandle(std::shared_ptr<ResponseState> state, std::string dropped_body)
    : state_(std::move(state)), dropped_body_(std::move(dropped_body)) {}

ResponseHandle::~ResponseHandle() {
  try {
    state_->send({500, "application/json", std::move(dropped_body_), {}});
  } catch (...) {
    state_->thrown(std::current_exception());
  }
  state_->end();
}

void ResponseHandle::send(int status, std::string_view content_type, std::string body, HeaderList headers) {
  state_->send({status, std::string(content_type), std::move(body), std::move(headers)});
}
void ResponseHandle::begin_events(HeaderList headers, StreamFormat form) {
  state_->begin_events(std::move(headers), form);
}
void ResponseHandle::write(std::string_view bytes) { state_->write(bytes); }
void ResponseHandle::end() { state_->end(); }
void ResponseHandle::on_close(std::function<void()> callback) { state_->on_close(std::move(callback)); }
bool ResponseHandle::closed() const { return state_->closed(); }
size_t ResponseHandle::unsent_bytes() const { return state_->unsent_bytes(); }
void ResponseHandle::on_drained(size_t bytes, std::function<void()> callback) {
  state_->on_drained(bytes, std::move(callback));
}
void ResponseHandle::post(std::function<void()> work) { state_->post(std::move(work)); }

}  // namespace cairn::net
