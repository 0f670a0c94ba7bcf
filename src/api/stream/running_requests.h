/// Requests that are being answered now, for who looks at the server and may cancel them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace cairn::api {

/// One request, with all its choices.
struct RunningRequest {
  std::string id;     ///< of its answer, as GET /debug/prefix takes it
  std::string model;  ///< its name
  int32_t choices = 0;
  int64_t prompt_tokens = 0;  ///< of the first choice
  int64_t tokens = 0;         ///< answered so far, by all choices
  std::chrono::steady_clock::time_point begun{};
  std::chrono::steady_clock::time_point first_token{};  ///< the epoch: there is none yet
};

class Cancellable {
 public:
  virtual ~Cancellable() = default;
  virtual void cancel() = 0;
};

/// Thread: the server's.
class RunningRequests {
 public:
  /// Null if a request of that id runs already. What is returned stays valid until `remove`, which `owner` calls before
  /// it is gone.
  RunningRequest* add(RunningRequest request, Cancellable& owner) {
    std::string id = request.id;
    const auto [at, added] = by_id_.try_emplace(std::move(id), Entry{std::move(request), &owner});
    return added ? &at->second.request : nullptr;
  }
  void remove(const std::string& id) { by_id_.erase(id); }
  /// False: none of that id runs.
  bool cancel(std::string_view id) {
    const auto found = by_id_.find(std::string(id));
    if (found == by_id_.end()) return false;
    found->second.owner->cancel();
    return true;
  }
  template <class Visit>
  void each(const Visit& visit) const {
    for (const auto& [id, entry] : by_id_) visit(entry.request);
  }

 private:
  struct Entry {
    RunningRequest request;
    Cancellable* owner;
  };
  std::unordered_map<std::string, Entry> by_id_;
};

/// Where a request is listed while it runs, and under which model's name.
struct Listing {
  RunningRequests* list = nullptr;  ///< null: nowhere
  std::string model{};
};

}  // namespace cairn::api
