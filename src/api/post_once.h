/// Work for the server's thread that is posted once, however often it is asked for before it runs.
#pragma once

#include <atomic>
#include <utility>

namespace cairn::api {

/// `work` sets `posted` to false when it runs. Throws std::bad_alloc if there is no memory; then nothing is posted, and
/// whoever asks again will post it. Any thread.
template <class Target, class Work>
void post_once(std::atomic<bool>& posted, Target& target, Work&& work) {
  if (posted.exchange(true, std::memory_order_acq_rel)) return;
  try {
    target.post(std::forward<Work>(work));
  } catch (...) {
    posted.store(false, std::memory_order_release);
    throw;
  }
}

}  // namespace cairn::api
