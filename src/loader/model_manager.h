/// Which models there are, which of them are loaded, and which give way to others under one memory budget.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/system/byte_budget.h"
#include "loader/catalog/catalog.h"
#include "loader/load_options.h"
#include "loader/loaded_model.h"
#include "loader/model_scope.h"

namespace cairn::loader {

class ModelLoad;
class Registry;

/// Requests that may wait for models to be loaded, all together.
inline constexpr size_t kLoadWaitersMax = 512;
/// How long a model that all others are too busy to give way to waits before it has the least recently used one finish
/// what it answers, and takes its place.
inline constexpr std::chrono::milliseconds kBusyPatience{2'000};
/// How long a load waits for memory at most.
inline constexpr std::chrono::minutes kMemoryWaitMax{10};
/// After so long, whoever waits is told (ModelManager::Waiter::tell).
inline constexpr std::chrono::milliseconds kQuietWait{2'000};
/// How often it is looked whether a client has gone, or a model is idle.
inline constexpr std::chrono::milliseconds kKeeperInterval{100};
/// How long an unload waits for a load that has begun.
inline constexpr std::chrono::seconds kUnloadWaitMax{60};
/// The folders are looked into again at most once in so long, however many requests name models that are not there.
inline constexpr std::chrono::milliseconds kLookAgainInterval{1'000};
/// A context that no other model is unloaded to make longer.
inline constexpr int32_t kContextTokensEnough = 16'384;
/// A model takes one part in so many of the budget at most, unless its context were shorter than that.
inline constexpr int64_t kModelShare = 2;
inline constexpr std::chrono::minutes kIdleUnloadDefault{5};

/// How long a model stays loaded that nobody asks; nullopt: until another one needs its memory.
struct KeepAlive {
  std::optional<std::chrono::milliseconds> time;
};

enum class ModelState { kUnloaded, kLoading, kLoaded };
/// "unloaded", "loading", "loaded".
std::string_view state_name(ModelState state);

struct ServedModel {
  CatalogModel model;
  LoadOptions options;  ///< name and aliases are the model's
  bool pinned = false;  ///< does not give way, and is not unloaded when idle
};

/// How often a model was loaded since the start, or could not be.
struct LoadCounts {
  int64_t loads = 0;  ///< that went well
  int64_t failures = 0;
  std::chrono::nanoseconds time{0};  ///< of the loads, from opening the file until the model could be asked
};

struct ModelStatus {
  std::shared_ptr<const ServedModel> served;
  ModelState state = ModelState::kUnloaded;
  SharedModel loaded;  ///< of kLoaded
  std::string error;   ///< of the last try to load it; empty: none
  LoadCounts loads{};
  /// Positions of a conversation: of kLoaded, or those that loading it is known to give; nullopt: see
  /// ModelManager::context_tokens.
  std::optional<int64_t> context_tokens{};
  std::shared_ptr<const ModelFacts> facts{};  ///< if they have been read; null: see ModelManager::facts
  /// When it is unloaded if nobody asks it; nullopt: never, or it is not loaded.
  std::optional<std::chrono::system_clock::time_point> expires;

  const CatalogModel& model() const { return served->model; }
};

struct ModelChoice {
  std::string name;         ///< the model's own
  bool is_default = false;  ///< it has no name like the one that was asked for
};

struct ModelManagerOptions {
  int64_t memory_bytes = std::numeric_limits<int64_t>::max() / 2;  ///< of the machine's memory, for all models
  KeepAlive idle_unload{kIdleUnloadDefault};
  bool strict = false;  ///< no name stands for a default model
  /// Names of default models, at most one of a kind; of other kinds it is the one that was used last, or else the
  /// first, one that has a chat template before others.
  std::vector<std::string> defaults;
};

/// Thread-safe. Models are loaded one at a time, on a thread of its own.
class ModelManager {
 public:
  /// `registry` outlives this, and has only models that this has loaded.
  ModelManager(Registry& registry, ModelManagerOptions options);
  ~ModelManager() { stop(std::chrono::hours(1)); }
  ModelManager(const ModelManager&) = delete;
  ModelManager& operator=(const ModelManager&) = delete;

  /// Replaces the list. A model whose name and file are in both stays as it is; one that is gone is unloaded. Errors:
  /// kInvalidArgument, two have a name in common (then nothing is replaced).
  Result<void> set_models(std::vector<ServedModel> models);
  /// The models that the scope shows; no other is found either. One whose file was replaced while it was not loaded is
  /// described anew, for which the file's header is read.
  std::vector<ModelStatus> list(const ModelScope& scope) const;
  /// Whether there are none at all.
  bool empty() const;
  /// The model of one of its names, as in `list`; NAME:latest is NAME. Error: kNotFound, listing the names that there
  /// are.
  Result<ModelStatus> find_exactly(std::string_view name, const ModelScope& scope) const;
  /// The model that is meant: find_by_name, or else the default of the kind, of which the log has a warning for each
  /// name, kForeignNamesMax at most.
  /// Errors: those of find_by_name; kNotFound, listing the names that there are; kUnsupported, why it cannot be loaded.
  Result<ModelChoice> choose(std::string_view name, ModelKind kind, const ModelScope& scope);

  /// A request that waits. Its functions are called on threads of this, without a lock.
  struct Waiter {
    std::function<bool()> gone;                                ///< whether nobody wants the answer any more
    std::function<void()> tell;                                ///< called once, after kQuietWait; may be empty
    std::move_only_function<void(Result<SharedModel>)> ready;  ///< called once, unless it is gone or all stops
  };
  /// The model, if it is loaded. Otherwise null: it is being loaded from now on, and `waiter` waits. `keep`: how long
  /// it stays after that, until it is unloaded; nullopt: as it was. A model whose file has changed is loaded again.
  /// Errors: kNotFound; kQueueFull (kLoadWaitersMax); of a pinned model those of ModelFiles::check.
  Result<SharedModel> use(const std::string& name, const std::optional<KeepAlive>& keep, Waiter waiter);
  /// Begins to load it, unless it is loaded. Errors: kNotFound, kUnsupported.
  Result<void> load(std::string_view name, const ModelScope& scope);
  /// Loads it on this thread's time, and waits. Errors: those of ModelLoad and Registry::add.
  Result<SharedModel> load_and_wait(const std::string& name);
  /// Called once with the model's state, unless all stops; without a lock, perhaps on a thread of this.
  using Unloaded = std::move_only_function<void(ModelState)>;
  /// What it answers goes on to its end. A load that has begun cannot be stopped: the model leaves once that is over
  /// and whoever waits has it, and `done` is called then, or after kUnloadWaitMax. Otherwise it is called at once. Not
  /// loaded: nothing. Error: kNotFound.
  Result<void> unload(std::string_view name, const ModelScope& scope, Unloaded done);
  /// How the list is made anew from the folders of models, which calls set_models. Once, before serving; it may be
  /// called until stop() has returned.
  void set_finder(std::function<Result<void>()> find_again);
  /// Has the folders looked into again on a thread of its own, and then calls `then` there. False: that was less than
  /// kLookAgainInterval ago, or there are no folders; then `then` is not called.
  bool look_again(std::function<void()> then);
  /// Positions of a conversation that the model has, or that loading it would give: as many as are asked for, or as it
  /// was trained for and memory allows when all others have given way. Reads its file's header the first time; where
  /// that cannot be done, it is what the file says.
  int64_t context_tokens(const ModelStatus& status);
  /// The model's, whether it is loaded or not. Reads its file's header, tokenizer and template the first time. Errors:
  /// read_model_facts's.
  Result<std::shared_ptr<const ModelFacts>> facts(const ModelStatus& status);
  /// Bytes that loaded models have, of the budget.
  const ByteBudget& memory() const { return *memory_; }
  /// Drops who waits, and ends the threads. False: after `grace` a model was still being loaded, and its thread is left
  /// alone: the program must end at once. May be called again.
  bool stop(std::chrono::milliseconds grace);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Waiter waiter;
    Clock::time_point since;
    bool told = false;
  };
  struct Unloading {
    Unloaded done;
    Clock::time_point since;
  };
  struct Entry {
    std::shared_ptr<const ServedModel> served;
    std::weak_ptr<const LoadedModel> loaded;  // the registry holds it
    bool loading = false;
    bool wanted = false;  // also if nobody waits
    std::vector<Waiting> waiting;
    std::vector<Unloading> unloading;  // it leaves once it is loaded
    KeepAlive keep;
    Clock::time_point used{};
    std::string error;
    LoadCounts loads;
    // What was read of the file, as long as it is the one that `served` describes.
    std::optional<int64_t> context_tokens;
    std::shared_ptr<const ModelFacts> facts;
  };
  using Entries = std::vector<std::shared_ptr<Entry>>;
  enum class Room { kMade, kComing, kNone };

  // Callers of these hold mutex_.
  Entries visible(const ModelScope& scope) const;
  std::shared_ptr<Entry> find(std::string_view name, const ModelScope& scope) const;
  std::shared_ptr<Entry> default_of(ModelKind kind, const ModelScope& scope) const;
  ModelStatus status_of(const Entry& entry) const;
  void want(const std::shared_ptr<Entry>& entry);
  bool has_room_to_wait() const;
  std::string names(const ModelScope& scope) const;
  void note_default(std::string_view asked, const Entry& entry);
  /// Its model has left the registry: what a request has said of how long it stays was said of that one.
  void forget(Entry& entry) const;
  /// Takes it out of the registry if nobody holds it.
  bool unload_if_idle(Entry& entry, std::string_view reason);

  void run_loads();
  void run_keeper();
  void run_finder();
  void keep_once(Clock::time_point now, std::vector<std::function<void()>>& tell, std::vector<Waiting>& gone);
  /// Adds to `tell` what tells those that have waited until `since` or longer for the model to leave.
  void end_unloading(Entry& entry, Clock::time_point since, std::vector<std::function<void()>>& tell) const;
  Result<SharedModel> load_entry(const std::shared_ptr<Entry>& entry);
  /// Plans the model, with others giving way until it fits. Errors: it cannot.
  Result<void> make_fit(ModelLoad& opened, const std::shared_ptr<Entry>& entry);
  /// Whether the last plan that could be made is as good as one can be wished for. `freed`: of what is taken, others
  /// give that back first. Errors: none could be made.
  Result<bool> plan_within(ModelLoad& opened, int64_t left, int64_t freed) const;
  Result<int64_t> planned_context(const ServedModel& served) const;
  /// Describes the models anew whose files are others than those that were described, unless they are loaded.
  void describe_replaced(const Entries& entries) const;
  /// The entry of what the status is of; null: the list has another one by now.
  std::shared_ptr<Entry> entry_of(const ModelStatus& status) const;
  Room make_room(const Entry& wanted, bool patient);
  bool still_wanted(Entry& entry) const;

  Registry& registry_;
  const ModelManagerOptions options_;
  const std::shared_ptr<ByteBudget> memory_;
  mutable std::mutex mutex_;  // guards the members below; taken before the registry's
  std::condition_variable wake_;
  Entries entries_;
  std::deque<std::weak_ptr<Entry>> queue_;  // to be loaded
  std::set<std::string, std::less<>> foreign_names_;
  bool stopped_ = false;
  bool loader_ended_ = false;
  std::function<Result<void>()> find_again_;
  std::vector<std::function<void()>> after_look_;  // what the next look is for
  std::optional<Clock::time_point> looked_;        // when the last one ended
  std::thread loader_, keeper_, finder_;
};

}  // namespace cairn::loader
