/// Destroys models on a thread of its own: freeing one joins its engine's thread and unmaps gigabytes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace cairn::loader {

struct LoadedModel;

/// Thread-safe. Models are shared through it: whoever lets go of one last waits for nothing.
class Unloader : public std::enable_shared_from_this<Unloader> {
 public:
  Unloader() = default;
  /// Waits for the models that are being destroyed.
  ~Unloader();
  Unloader(const Unloader&) = delete;
  Unloader& operator=(const Unloader&) = delete;

  /// The model, to be destroyed on this object's thread once nobody holds it; this object lives on until then. The
  /// first call starts the thread.
  std::shared_ptr<const LoadedModel> share(std::unique_ptr<LoadedModel> model);
  /// Models that share() has given out and that are not destroyed yet.
  size_t alive() const;

 private:
  void destroy(std::unique_ptr<const LoadedModel> model) noexcept;
  void run();

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  std::vector<std::unique_ptr<const LoadedModel>> waiting_;  // has room for all that are alive
  size_t alive_ = 0;
  bool stopped_ = false;
  std::thread thread_;  // started under mutex_
};

}  // namespace cairn::loader
