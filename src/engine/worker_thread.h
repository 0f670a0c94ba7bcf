/// The thread on which an engine works.
#pragma once

#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"

namespace cairn::engine {

/// Started once; its owner makes `run` return and calls join() before it is destroyed.
class WorkerThread {
 public:
  /// Errors: kUnavailable (no thread could be started).
  Result<void> start(std::function<void()> run) try {
    thread_ = std::thread(std::move(run));
    return {};
  } catch (const std::system_error& error) {
    return fail(Code::kUnavailable,
                "cannot start the engine's thread: {}; raise the limits of address space (ulimit -v) and processes "
                "(ulimit -u)",
                error.what());
  }
  /// Waits until `run` has returned. Thread-safe; may be called more than once.
  void join() {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::mutex mutex_;  // guards join()
  std::thread thread_;
};

}  // namespace cairn::engine
