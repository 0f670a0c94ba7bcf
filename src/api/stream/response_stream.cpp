#include "api/stream/response_stream.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "api/errors.h"
#include "api/post_once.h"

namespace cairn::api {

/// How any thread asks for a pump, once however many streams have events. It does not hold the stream, which must end
/// on the server's thread.
struct ResponseStream::Waker {
  std::weak_ptr<ResponseStream> stream;
  std::shared_ptr<net::ClientOutput> output;
  std::atomic<bool> posted = false;
};

ResponseStream::ResponseStream(std::shared_ptr<net::ClientOutput> output,
                               std::function<void(const ResponseTask& task)> on_over)
    : output_(std::move(output)), on_over_(std::move(on_over)) {}

void ResponseStream::start(std::shared_ptr<net::HttpResponse> response, std::shared_ptr<ResponseTask> task) {
  net::HttpResponse& to = *response;
  to.post([response = std::move(response), task = std::move(task)] {
    if (response->closed()) return;
    const auto stream = std::make_shared<ResponseStream>(response);
    // The exchange owns the stream: when it is over, for whatever reason, the tasks go, and with them the requests.
    response->on_close([stream] { stream->close(); });
    stream->add(task);
  });
}

void ResponseStream::wake(const std::shared_ptr<Waker>& waker) {
  post_once(waker->posted, *waker->output, [waker] {
    // An exchange, so that the pump sees all that was done before somebody asked in vain.
    waker->posted.exchange(false, std::memory_order_acq_rel);
    if (const auto stream = waker->stream.lock()) stream->pump();
  });
}

template <class Work>
Progress ResponseStream::guarded(ResponseTask& task, const Work& work) {
  try {
    try {
      return work();
    } catch (...) {
      task.fail(thrown_error());
    }
  } catch (...) {
    task.abandon();
    close();
  }
  return Progress::kOver;
}

void ResponseStream::add(std::shared_ptr<ResponseTask> task) {
  if (!output_) return;
  if (!waker_) {
    waker_ = std::make_shared<Waker>();
    waker_->stream = weak_from_this();
    waker_->output = output_;
  }
  tasks_.push_back(task);
  const Progress progress = guarded(*task, [&] { return task->begin([waker = waker_] { wake(waker); }); });
  if (!output_) return;
  if (progress == Progress::kOver) {
    remove(static_cast<size_t>(std::ranges::find(tasks_, task) - tasks_.begin()));
  } else if (progress != Progress::kWaits) {
    wake(waker_);
  }
}

void ResponseStream::close() {
  tasks_.clear();
  waker_.reset();
  output_.reset();
}

void ResponseStream::remove(size_t index) {
  const auto at = tasks_.begin() + static_cast<std::ptrdiff_t>(index);
  const std::shared_ptr<ResponseTask> task = std::move(*at);
  tasks_.erase(at);
  if (on_over_) on_over_(*task);
}

void ResponseStream::pump() {
  if (!output_) return;
  const auto end = std::chrono::steady_clock::now() + kTimeSlice;
  for (size_t i = 0; i < tasks_.size();) {
    const Slice slice{kUnsentBytesMax - std::min(kUnsentBytesMax, output_->unsent_bytes()), end};
    const std::shared_ptr<ResponseTask> task = tasks_[i];
    const Progress progress = guarded(*task, [&] { return task->advance(slice); });
    if (!output_) return;
    if (progress == Progress::kOver) {
      remove(i);
    } else if (progress == Progress::kWaits) {
      ++i;
    } else {
      std::rotate(tasks_.begin(), tasks_.begin() + static_cast<std::ptrdiff_t>(i), tasks_.end());
      if (progress == Progress::kNoTime) return wake(waker_);
      return wait_for_client();
    }
  }
}

// Half the bound: a client that reads slowly is not waited on for every few bytes.
void ResponseStream::wait_for_client() {
  output_->on_drained(kUnsentBytesMax / 2, [weak = weak_from_this()] {
    if (const auto stream = weak.lock()) stream->pump();
  });
}

}  // namespace cairn::api
