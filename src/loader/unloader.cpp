#include "loader/unloader.h"

#include <utility>

#include "loader/loaded_model.h"

namespace cairn::loader {

Unloader::~Unloader() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const LoadedModel> Unloader::share(std::unique_ptr<LoadedModel> model) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.reserve(alive_ + 1);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    ++alive_;
  }
  return {model.release(), [self = shared_from_this()](const LoadedModel* gone) {
            self->destroy(std::unique_ptr<const LoadedModel>(gone));
          }};
}

size_t Unloader::alive() const {
  const std::lock_guard lock(mutex_);
  return alive_;
}

void Unloader::destroy(std::unique_ptr<const LoadedModel> model) noexcept {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(model));
  }
  wake_.notify_all();
}

void Unloader::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    auto gone = std::move(waiting_.back());
    waiting_.pop_back();
    lock.unlock();
    gone.reset();
    lock.lock();
    --alive_;
  }
}

}  // namespace cairn::loader
