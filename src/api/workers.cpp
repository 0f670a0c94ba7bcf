#include "api/workers.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "base/log.h"

namespace cairn::api {

Workers::Workers(int threads, size_t waiting_max, std::function<void()> idle)
    : waiting_max_(waiting_max), idle_(std::move(idle)) {
  // Threads have their maker's mask: those that end the program are for whoever waits for them.
  sigset_t ends, before;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &ends, &before);
  for (int i = 0; i < threads; ++i)
    threads_.emplace_back([this, small_only = threads > 1 && i == 0] { run(small_only); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool Workers::submit(std::move_only_function<void()> job, int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || small_.size() + large_.size() >= waiting_max_) return false;
    Jobs& jobs = bytes <= kSmallJobBytes ? small_ : large_;
    jobs.emplace(Clock::now() + bytes * kJobTimePerByte, std::move(job));
  }
  wake_.notify_all();  // of a few threads, not each may take it
  return true;
}

Workers::Jobs* Workers::next(bool small_only) {
  if (small_only || large_.empty()) return small_.empty() ? nullptr : &small_;
  return small_.empty() || large_.begin()->first < small_.begin()->first ? &large_ : &small_;
}

void Workers::run(bool small_only) {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (Jobs* jobs = next(small_only)) {
      auto job = jobs->extract(jobs->begin());
      lock.unlock();
      try {
        job.mapped()();
      } catch (...) {
        log_line(LogLevel::kError, "a worker's job was left unfinished: out of memory");
      }
      job = {};  // what it held goes before the next one begins
      lock.lock();
    } else if (idle_ && Clock::now() - idled_ >= kIdleInterval) {
      idled_ = Clock::now();
      lock.unlock();
      idle_();
      lock.lock();
    } else if (idle_) {
      wake_.wait_for(lock, kIdleInterval);
    } else {
      wake_.wait(lock);
    }
  }
}

void Workers::stop() {
  {
    Jobs small, large;  // dropped without the lock
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    small.swap(small_);
    large.swap(large_);
  }
  wake_.notify_all();
  for (auto& thread : threads_)
    if (thread.joinable()) thread.join();
}

}  // namespace cairn::api
