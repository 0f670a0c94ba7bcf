#include "engine/sequence/rule_workers.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <system_error>
#include <utility>

#include "engine/failures.h"

namespace cairn::engine {
namespace {

/// How far these threads stand behind those that compute, where there are not enough cores for both.
constexpr int kRuleNice = 5;

void finish_rule(RuleWork& work) {
  const Result<void> done = guarded([&]() -> Result<void> {
    work.constraint->finish(work.rule);
    return {};
  });
  if (!done.has_value()) work.rule.error = copy_of(done.error());
  work.rule.unfinished = false;
}

}  // namespace

RuleWorkers::~RuleWorkers() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    quick_.clear();
    slow_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// False: there is not even one thread.
bool RuleWorkers::start() {
  if (!threads_.empty()) return true;
  // Signals that end the program are for whoever waits for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  try {
    // The one that takes all comes first.
    for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this, quick_only = i == 1] { run(quick_only); });
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return !threads_.empty();
}

void RuleWorkers::push(std::shared_ptr<RuleWork> work) {
  {
    const std::lock_guard lock(mutex_);
    (work->was_slow ? slow_ : quick_).push_back(std::move(work));
  }
  wake_.notify_all();  // not each may take it
}

void RuleWorkers::submit(std::shared_ptr<RuleWork> work) {
  if (!start()) {
    finish_rule(*work);
    work->done = true;
    return;
  }
  push(work);
  // An answer that has kept steps waiting does not do so again.
  if (work->was_slow || waited_ >= kStepWaitMax) return;
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  finished_.wait_for(lock, kStepWaitMax - waited_, [&] { return work->done.load(); });
  waited_ += std::chrono::steady_clock::now() - begin;
}

void RuleWorkers::release(std::shared_ptr<DecodingConstraint> constraint) {
  if (threads_.empty()) return;  // it was never slow
  auto work = std::make_shared<RuleWork>();
  work->constraint = std::move(constraint);
  work->dropped = true;
  push(std::move(work));
}

void RuleWorkers::run(bool quick_only) {
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kRuleNice);
  std::unique_lock lock(mutex_);
  for (;;) {
    std::deque<std::shared_ptr<RuleWork>>& works = quick_only || !quick_.empty() ? quick_ : slow_;
    if (stopped_) return;
    if (works.empty()) {
      wake_.wait(lock);
      continue;
    }
    std::shared_ptr<RuleWork> work = std::move(works.front());
    works.pop_front();
    lock.unlock();
    if (!work->dropped) finish_rule(*work);
    const bool awaited = !work->dropped;
    lock.lock();
    work->done = true;
    if (awaited) finished_.notify_all();
    lock.unlock();
    work.reset();  // what it held goes without the lock
    lock.lock();
  }
}

}  // namespace cairn::engine
