#include "loader/model_manager.h"

#include <pthread.h>
#include <algorithm>
#include <csignal>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/system/machine.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "loader/catalog/model_names.h"
#include "loader/memory_plan.h"
#include "loader/model_files.h"
#include "loader/model_load.h"
#include "loader/registry.h"

namespace cairn::loader {
namespace {

using namespace std::chrono_literals;

/// Between two looks whether memory has become free.
constexpr auto kMemoryPoll = 5ms;

ModelNames names_of(const ServedModel& served) { return {served.model.name, served.model.aliases, served.model.kind}; }

Error gone_error() { return {Code::kUnavailable, "the server is stopping", {}}; }

Error unusable_error(const CatalogModel& model) {
  return {Code::kUnsupported, fmt::format("{} cannot be loaded: {}", model.name, model.unusable), "model"};
}

/// Exceptions that end the program are for whoever waits for them.
template <class Run>
std::thread thread_without_signals(Run run) {
  sigset_t ends, before;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

/// What it throws ends the one that waits, by the end of the connection.
template <class Work>
void guarded(const Work& work) noexcept {
  try {
    work();
  } catch (...) {
    log_line(LogLevel::kError, "whoever waits for a model was not answered: out of memory");
  }
}

}  // namespace

std::string_view state_name(ModelState state) {
  switch (state) {
    case ModelState::kUnloaded:
      return "unloaded";
    case ModelState::kLoading:
      return "loading";
    case ModelState::kLoaded:
      return "loaded";
  }
  return "";
}

ModelManager::ModelManager(Registry& registry, ModelManagerOptions options)
    : registry_(registry),
      options_(std::move(options)),
      memory_(std::make_shared<ByteBudget>(options_.memory_bytes)),
      loader_(thread_without_signals([this] { run_loads(); })),
      keeper_(thread_without_signals([this] { run_keeper(); })) {}

bool ModelManager::stop(std::chrono::milliseconds grace) {
  std::vector<Waiting> dropped;  // without the lock
  std::vector<std::function<void()>> looks;
  std::unique_lock lock(mutex_);
  stopped_ = true;
  wake_.notify_all();
  for (const auto& entry : entries_) {
    for (Waiting& waiting : entry->waiting) dropped.push_back(std::move(waiting));
    entry->waiting.clear();
  }
  looks.swap(after_look_);
  const bool ended = wake_.wait_for(lock, grace, [&] { return loader_ended_; });
  lock.unlock();
  if (keeper_.joinable()) keeper_.join();
  if (finder_.joinable()) finder_.join();
  if (!ended) {
    if (loader_.joinable()) loader_.detach();
    return false;
  }
  if (loader_.joinable()) loader_.join();
  return true;
}

Result<void> ModelManager::set_models(std::vector<ServedModel> models) {
  std::set<std::string, std::less<>> names;
  for (const ServedModel& served : models) {
    std::set<std::string, std::less<>> own(served.model.aliases.begin(), served.model.aliases.end());
    own.insert(served.model.name);
    for (const std::string& name : own)
      if (!names.insert(name).second)
        return fail(Code::kInvalidArgument, "two models are named {}; give one another name", name);
  }
  const std::lock_guard lock(mutex_);
  Entries entries;
  for (ServedModel& served : models) {
    std::shared_ptr<Entry> entry = find(served.model.name, kEveryModel);
    const auto same = [](const CatalogModel& one, const CatalogModel& other) {
      const bool both_made = one.made != nullptr && other.made != nullptr;
      return one.path == other.path && (both_made ? *one.made == *other.made : one.made == other.made);
    };
    if (entry == nullptr || !same(entry->served->model, served.model)) {
      entry = std::make_shared<Entry>();
      entry->keep = options_.idle_unload;
    } else {
      std::erase(entries_, entry);
      if (entry->served->model.file_state != served.model.file_state) {
        entry->context_tokens.reset();
        entry->facts.reset();
      }
    }
    served.options.name = served.model.name;
    served.options.aliases = served.model.aliases;
    entry->served = std::make_shared<const ServedModel>(std::move(served));
    entries.push_back(std::move(entry));
  }
  for (const auto& gone : std::exchange(entries_, std::move(entries))) {
    if (const SharedModel model = gone->loaded.lock()) registry_.remove(model);
  }
  return {};
}

std::vector<ModelStatus> ModelManager::list(const ModelScope& scope) const {
  std::unique_lock lock(mutex_);
  const Entries shown = visible(scope);
  lock.unlock();
  describe_replaced(shown);
  lock.lock();
  std::vector<ModelStatus> list;
  for (const auto& entry : shown) list.push_back(status_of(*entry));
  return list;
}

ModelStatus ModelManager::status_of(const Entry& entry) const {
  ModelStatus status{
      .served = entry.served, .loaded = entry.loaded.lock(), .error = entry.error, .loads = entry.loads, .expires = {}};
  if (status.loaded != nullptr) status.state = ModelState::kLoaded;
  const bool asked = entry.wanted || !entry.waiting.empty();
  if (entry.loading || (asked && status.loaded == nullptr)) status.state = ModelState::kLoading;
  status.context_tokens = entry.context_tokens;
  status.facts = entry.facts;
  if (status.loaded != nullptr && entry.keep.time && !entry.served->pinned) {
    const auto left = entry.used + *entry.keep.time - Clock::now();
    status.expires =
        std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(left);
  }
  return status;
}

ModelManager::Entries ModelManager::visible(const ModelScope& scope) const {
  Entries shown;
  std::ranges::copy_if(entries_, std::back_inserter(shown), [&](const auto& entry) {
    return scope.shows(entry->served->model.name, entry->served->model.aliases);
  });
  return shown;
}

std::shared_ptr<ModelManager::Entry> ModelManager::find(std::string_view name, const ModelScope& scope) const {
  const Entries entries = visible(scope);
  // NAME and NAME:latest are two names if there are both.
  const auto own = std::ranges::find(entries, name, [](const auto& entry) { return entry->served->model.name; });
  if (own != entries.end()) return *own;
  const auto found =
      std::ranges::find_if(entries, [&](const auto& entry) { return is_called(names_of(*entry->served), name); });
  return found == entries.end() ? nullptr : *found;
}

std::string ModelManager::names(const ModelScope& scope) const {
  std::vector<ModelNames> all;
  for (const auto& entry : visible(scope)) all.push_back(names_of(*entry->served));
  return all.empty() ? "none here" : list_names(all);
}

bool ModelManager::empty() const {
  const std::lock_guard lock(mutex_);
  return entries_.empty();
}

Result<ModelStatus> ModelManager::find_exactly(std::string_view name, const ModelScope& scope) const {
  std::unique_lock lock(mutex_);
  if (const auto entry = find(name, scope)) {
    lock.unlock();
    describe_replaced({entry});
    lock.lock();
    return status_of(*entry);
  }
  return fail_at("model", Code::kNotFound, "there is no model \"{}\"; there is {}", cut_text(name, kQuotedBytesMax),
                 names(scope));
}

std::shared_ptr<ModelManager::Entry> ModelManager::default_of(ModelKind kind, const ModelScope& scope) const {
  const auto usable = [&](const std::shared_ptr<Entry>& entry) {
    return answers(entry->served->model.kind, kind) && entry->served->model.usable();
  };
  for (const std::string& name : options_.defaults) {
    if (auto entry = find(name, scope); entry != nullptr && usable(entry)) return entry;
  }
  const Entries entries = visible(scope);
  std::shared_ptr<Entry> last_used, first_of_kind, first;
  for (const auto& entry : entries) {
    if (!usable(entry)) continue;
    const bool was_used = entry->used != Clock::time_point() && entry->error.empty();
    if (was_used && (last_used == nullptr || entry->used > last_used->used)) last_used = entry;
    if (first_of_kind == nullptr && entry->served->model.kind == kind) first_of_kind = entry;
    if (first == nullptr) first = entry;
  }
  const std::shared_ptr<Entry> best = last_used != nullptr       ? last_used
                                      : first_of_kind != nullptr ? first_of_kind
                                                                 : first;
  // A server of one model answers whatever it is asked as well as it can.
  return best == nullptr && entries.size() == 1 ? entries.front() : best;
}

void ModelManager::note_default(std::string_view asked, const Entry& entry) {
  const std::string shown = printable(asked, kQuotedBytesMax);
  if (foreign_names_.size() >= kForeignNamesMax || !foreign_names_.insert(shown).second) return;
  const CatalogModel& model = entry.served->model;
  log_warning("requests for the model \"{}\" are answered by {}, {} (said once for each name)", shown, model.name,
              entries_.size() == 1 ? std::string("the only one here")
                                   : fmt::format("the default for {}", kind_name(model.kind)));
}

Result<ModelChoice> ModelManager::choose(std::string_view name, ModelKind kind, const ModelScope& scope) {
  const std::lock_guard lock(mutex_);
  const Entries entries = visible(scope);
  std::vector<ModelNames> all;
  for (const auto& entry : entries) all.push_back(names_of(*entry->served));
  CAIRN_TRY(const std::optional<size_t> found, find_by_name(all, name, kind));
  const std::shared_ptr<Entry> entry = found ? entries[*found] : default_of(kind, scope);
  if (entry == nullptr || (!found && !name.empty() && options_.strict)) {
    if (name.empty())
      return fail_at("model", Code::kNotFound, "there is no {} model; there is {}", kind_name(kind), names(scope));
    return fail_at("model", Code::kNotFound, "there is no model \"{}\"; there is {}", cut_text(name, kQuotedBytesMax),
                   names(scope));
  }
  if (!entry->served->model.usable()) return std::unexpected(unusable_error(entry->served->model));
  if (!found && !name.empty()) note_default(name, *entry);
  return ModelChoice{entry->served->model.name, !found};
}

bool ModelManager::has_room_to_wait() const {
  size_t waiting = 0;
  for (const auto& entry : entries_) waiting += entry->waiting.size();
  return waiting < kLoadWaitersMax;
}

void ModelManager::want(const std::shared_ptr<Entry>& entry) {
  const auto same = [&](const std::weak_ptr<Entry>& queued) { return queued.lock() == entry; };
  if (!entry->loading && std::ranges::none_of(queue_, same)) queue_.push_back(entry);
  wake_.notify_all();
}

Result<SharedModel> ModelManager::use(const std::string& name, const std::optional<KeepAlive>& keep, Waiter waiter) {
  const std::lock_guard lock(mutex_);
  const auto entry = find(name, kEveryModel);
  if (entry == nullptr) return fail_at("model", Code::kNotFound, "the model {} has just been removed", name);
  if (SharedModel model = entry->loaded.lock()) {
    const auto unchanged = model->files->check();
    if (!unchanged && entry->served->pinned) return std::unexpected(unchanged.error());
    if (!unchanged) {
      registry_.remove(model);
      forget(*entry);
      log_warning("{} is loaded again, as its file has changed", model->name);
    }
  }
  if (keep) entry->keep = *keep;
  entry->used = Clock::now();
  if (SharedModel model = entry->loaded.lock()) return model;
  if (stopped_) return std::unexpected(gone_error());
  if (!has_room_to_wait())
    return fail(Code::kQueueFull, "{} requests wait for models to be loaded; try again later", kLoadWaitersMax);
  entry->waiting.push_back({std::move(waiter), Clock::now()});
  want(entry);
  return nullptr;
}

Result<void> ModelManager::load(std::string_view name, const ModelScope& scope) {
  CAIRN_TRY_VOID(find_exactly(name, scope));
  const std::lock_guard lock(mutex_);
  const auto entry = find(name, scope);
  if (entry == nullptr || !entry->loaded.expired()) return {};
  if (!entry->served->model.usable()) return std::unexpected(unusable_error(entry->served->model));
  entry->wanted = true;
  want(entry);
  return {};
}

Result<SharedModel> ModelManager::load_and_wait(const std::string& name) {
  struct Outcome {
    std::mutex mutex;
    std::condition_variable there;
    std::optional<Result<SharedModel>> result;
  };
  const auto outcome = std::make_shared<Outcome>();
  Waiter waiter{.gone = [] { return false; },
                .tell = {},
                .ready =
                    [outcome](Result<SharedModel> result) {
                      const std::lock_guard lock(outcome->mutex);
                      outcome->result = std::move(result);
                      outcome->there.notify_all();
                    }};
  CAIRN_TRY(SharedModel loaded, use(name, std::nullopt, std::move(waiter)));
  if (loaded != nullptr) return loaded;
  std::unique_lock lock(outcome->mutex);
  while (!outcome->result) {
    outcome->there.wait_for(lock, kKeeperInterval);
    if (outcome.use_count() == 1 && !outcome->result) return std::unexpected(gone_error());  // all stops
  }
  return *outcome->result;
}

Result<void> ModelManager::unload(std::string_view name, const ModelScope& scope, Unloaded done) {
  CAIRN_TRY_VOID(find_exactly(name, scope));
  ModelState state = ModelState::kUnloaded;
  {
    const std::lock_guard lock(mutex_);
    if (const auto entry = find(name, scope)) {
      entry->wanted = false;
      if (entry->loading && !stopped_) {
        entry->unloading.push_back({std::move(done), Clock::now()});
        wake_.notify_all();
        return {};
      }
      if (const SharedModel model = entry->loaded.lock()) {
        registry_.remove(model);
        log_info("{} is unloaded, as somebody asked", model->name);
      }
      forget(*entry);
      state = status_of(*entry).state;
    }
  }
  done(state);
  return {};
}

void ModelManager::end_unloading(Entry& entry, Clock::time_point since,
                                 std::vector<std::function<void()>>& tell) const {
  const ModelState state = status_of(entry).state;
  const auto over =
      std::ranges::stable_partition(entry.unloading, [&](const Unloading& each) { return each.since > since; });
  for (Unloading& each : over) {
    const auto done = std::make_shared<Unloaded>(std::move(each.done));
    tell.emplace_back([done, state] { (*done)(state); });
  }
  entry.unloading.erase(over.begin(), over.end());
}

void ModelManager::forget(Entry& entry) const {
  entry.loaded.reset();
  entry.keep = options_.idle_unload;
}

bool ModelManager::unload_if_idle(Entry& entry, std::string_view reason) {
  if (!registry_.remove_idle(entry.loaded)) return false;
  forget(entry);
  log_info("{} is unloaded: {}", entry.served->model.name, reason);
  return true;
}

void ModelManager::run_loads() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (queue_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const std::shared_ptr<Entry> entry = queue_.front().lock();
    queue_.pop_front();
    if (entry == nullptr || (entry->loaded.expired() && !still_wanted(*entry))) continue;
    Result<SharedModel> loaded = entry->loaded.lock();
    if (*loaded == nullptr) {
      entry->loading = true;
      const auto begun = Clock::now();
      lock.unlock();
      loaded = load_entry(entry);
      lock.lock();
      entry->loading = false;
      if (!loaded && loaded.error().code == Code::kCancelled) {
        if (still_wanted(*entry)) want(entry);  // by somebody who has just come
        continue;                               // the keeper tells who unloads it
      }
      entry->wanted = false;
      entry->used = Clock::now();
      entry->error = loaded ? std::string() : loaded.error().text();
      ++(loaded ? entry->loads.loads : entry->loads.failures);
      if (loaded) entry->loads.time += Clock::now() - begun;
      if (loaded) {
        entry->loaded = *loaded;
        entry->context_tokens = (*loaded)->engine->context_tokens();
        entry->facts.reset();
      }
      // It may have left the list in the meantime, or be told to leave.
      if (loaded && std::ranges::find(entries_, entry) == entries_.end()) registry_.remove(*loaded);
      if (loaded && !entry->unloading.empty()) {
        registry_.remove(*loaded);
        forget(*entry);
        log_info("{} is unloaded, as somebody asked while it was being loaded", entry->served->model.name);
      }
    }
    std::vector<Waiting> ready = std::exchange(entry->waiting, {});
    std::vector<std::function<void()>> tell;
    end_unloading(*entry, Clock::time_point::max(), tell);
    lock.unlock();
    if (!loaded) log_error("{} cannot be loaded: {}", entry->served->model.name, loaded.error().text());
    for (Waiting& each : ready)
      if (!each.waiter.gone()) guarded([&] { each.waiter.ready(loaded); });
    ready.clear();
    loaded = nullptr;
    for (const auto& each : tell) guarded(each);
    tell.clear();
    lock.lock();
  }
  loader_ended_ = true;
  wake_.notify_all();
}

bool ModelManager::still_wanted(Entry& entry) const {
  return !stopped_ &&
         (entry.wanted || std::ranges::any_of(entry.waiting, [](const Waiting& each) { return !each.waiter.gone(); }));
}

Result<SharedModel> ModelManager::load_entry(const std::shared_ptr<Entry>& entry) try {
  describe_replaced({entry});
  const std::shared_ptr<const ServedModel> served = [&] {
    const std::lock_guard lock(mutex_);
    return entry->served;
  }();
  CAIRN_TRY(ModelLoad opened, ModelLoad::open(served->model.path, served->options));
  CAIRN_TRY_VOID(make_fit(opened, entry));
  ByteShare share(memory_);
  if (!share.grow_to(opened.host_bytes()))
    return fail(Code::kOutOfMemory, "{} are needed, of a budget of {} (--memory)", bytes_text(opened.host_bytes()),
                bytes_text(memory_->bytes_max()));
  CAIRN_TRY(auto model, std::move(opened).load());
  model->memory = std::move(share);
  return registry_.add(std::move(model));
} catch (const std::bad_alloc&) {
  return fail(Code::kOutOfMemory, "there is not enough memory for the model");
} catch (const std::exception& error) {
  return fail(Code::kInternal, "unexpected: {}", error.what());
}

Result<bool> ModelManager::plan_within(ModelLoad& opened, int64_t left, int64_t freed) const {
  const auto enough = [](const MemoryPlan& plan) {
    return plan.whole_context || plan.kv_pages.empty() || plan.context_tokens >= kContextTokensEnough;
  };
  const int64_t share = memory_->bytes_max() / kModelShare;
  if (share < std::min(left, available_memory_bytes() + freed)) {
    const auto plan = opened.plan(share, freed);
    if (plan && enough(**plan)) return true;
  }
  CAIRN_TRY(const MemoryPlan* plan, opened.plan(std::max<int64_t>(0, left), freed));
  return enough(*plan);
}

Result<void> ModelManager::make_fit(ModelLoad& opened, const std::shared_ptr<Entry>& entry) {
  const auto begun = Clock::now();
  while (true) {
    const int64_t used = memory_->used();
    const size_t leaving = registry_.leaving();
    Result<bool> planned = plan_within(opened, memory_->bytes_max() - used, 0);
    if (planned && *planned) return {};
    if (!planned && planned.error().code != Code::kOutOfMemory) return std::unexpected(planned.error());
    Room room = Room::kComing;
    while (room == Room::kComing && memory_->used() == used && registry_.leaving() == leaving) {
      std::unique_lock lock(mutex_);
      if (!still_wanted(*entry)) return fail(Code::kCancelled, "nobody waits for it any more");
      const auto waited = Clock::now() - begun;
      room = make_room(*entry, waited < kBusyPatience);
      if (room == Room::kNone || waited > kMemoryWaitMax) break;
      wake_.wait_for(lock, kMemoryPoll);
    }
    if (room == Room::kComing && Clock::now() - begun <= kMemoryWaitMax) continue;
    if (room == Room::kMade) continue;
    if (planned) return {};
    return fail(Code::kOutOfMemory, "{} (of a budget of {} for models, {} are taken; --memory)",
                planned.error().message, bytes_text(memory_->bytes_max()), bytes_text(memory_->used()));
  }
}

ModelManager::Room ModelManager::make_room(const Entry& wanted, bool patient) {
  if (registry_.leaving() > 0) return Room::kComing;
  std::vector<std::shared_ptr<Entry>> others;
  for (const auto& entry : entries_) {
    if (entry.get() != &wanted && !entry->served->pinned && !entry->loaded.expired()) others.push_back(entry);
  }
  if (others.empty()) return Room::kNone;
  std::ranges::sort(others, {}, [](const auto& entry) { return entry->used; });
  const std::string reason = fmt::format("it gives way to {}", wanted.served->model.name);
  for (const auto& entry : others)
    if (unload_if_idle(*entry, reason)) return Room::kMade;
  if (patient) return Room::kComing;
  if (const SharedModel busy = others.front()->loaded.lock()) {
    registry_.remove(busy);
    log_info("{} is unloaded once it has answered: {}", busy->name, reason);
  }
  forget(*others.front());
  return Room::kComing;
}

void ModelManager::keep_once(Clock::time_point now, std::vector<std::function<void()>>& tell,
                             std::vector<Waiting>& gone) {
  for (const auto& entry : entries_) {
    const auto left =
        std::ranges::stable_partition(entry->waiting, [](const Waiting& waiting) { return !waiting.waiter.gone(); });
    std::ranges::move(left, std::back_inserter(gone));
    entry->waiting.erase(left.begin(), left.end());
    for (Waiting& waiting : entry->waiting) {
      if (waiting.told || now - waiting.since < kQuietWait) continue;
      waiting.told = true;
      if (waiting.waiter.tell) tell.push_back(waiting.waiter.tell);
    }
    const bool leaves = !entry->loading && entry->loaded.expired() && !still_wanted(*entry);
    end_unloading(*entry, leaves ? now : now - kUnloadWaitMax, tell);
    if (entry->loaded.expired() || entry->served->pinned || entry->loading) continue;
    if (entry->loaded.use_count() > 1) entry->used = std::max(entry->used, now);
    if (!entry->keep.time || now - entry->used < *entry->keep.time) continue;
    unload_if_idle(*entry, fmt::format("nobody has asked it for {:.0f} s",
                                       std::chrono::duration<double>(*entry->keep.time).count()));
  }
}

void ModelManager::run_keeper() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    wake_.wait_for(lock, kKeeperInterval, [&] { return stopped_; });
    std::vector<std::function<void()>> tell;
    std::vector<Waiting> gone;
    keep_once(Clock::now(), tell, gone);
    lock.unlock();
    for (const auto& each : tell) guarded(each);
    tell.clear();
    gone.clear();
    lock.lock();
  }
}

void ModelManager::set_finder(std::function<Result<void>()> find_again) {
  find_again_ = std::move(find_again);
  finder_ = thread_without_signals([this] { run_finder(); });
}

bool ModelManager::look_again(std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  if (find_again_ == nullptr || stopped_ || (looked_ && Clock::now() - *looked_ < kLookAgainInterval)) return false;
  after_look_.push_back(std::move(then));
  wake_.notify_all();
  return true;
}

void ModelManager::run_finder() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (after_look_.empty()) {
      wake_.wait(lock);
      continue;
    }
    std::vector<std::function<void()>> after = std::exchange(after_look_, {});
    // Who came during the last look has what that found.
    const bool again = !looked_ || Clock::now() - *looked_ >= kLookAgainInterval;
    lock.unlock();
    guarded([&] {
      if (!again) return;
      if (const auto found = find_again_(); !found) log_error("the folders of models: {}", found.error().text());
    });
    lock.lock();
    if (again) looked_ = Clock::now();
    lock.unlock();
    for (const auto& then : after) guarded(then);
    after.clear();
    lock.lock();
  }
}

}  // namespace cairn::loader
