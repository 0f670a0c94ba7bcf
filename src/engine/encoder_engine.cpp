#include "engine/encoder_engine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "base/system/clock.h"
#include "engine/channel_stream.h"
#include "engine/failures.h"
#include "engine/output/event_channel.h"
#include "engine/power_limit.h"
#include "engine/request_validation.h"
#include "engine/scheduling/fair_shares.h"
#include "engine/scheduling/request_queue.h"
#include "engine/scheduling/stride.h"
#include "engine/scheduling/tenants.h"
#include "engine/worker_thread.h"

namespace cairn::engine {
namespace {

using std::chrono::nanoseconds;

// Maximum tokens of a batch, unless one text has more: enough to make good use of reading the weights, few enough that
// a batch is soon done when others wait or the client is gone.
constexpr int32_t kBatchTokensMax = 512;
// How long to wait before an entry that found no memory is tried again.
constexpr std::chrono::milliseconds kRetryPoll{10};

class EncoderEngine final : public Engine {
 public:
  EncoderEngine(model::Embedder& embedder, const EngineOptions& options)
      : model_(options.model),
        embedder_(embedder),
        check_weights_(options.check_weights),
        power_(options.power),
        limits_{.vocabulary = static_cast<int32_t>(embedder.vocabulary()),
                .context_tokens = embedder.context_tokens(),
                .embedding = embedder.ability(),
                .pool_tokens = embedder.context_tokens()},
        adapters_(options.adapter_scales),
        tenants_(options.tenant_requests_max),
        queue_(options.queue_max) {
    batch_.reserve(static_cast<size_t>(embedder.texts_max()));
    texts_.reserve(batch_.capacity());
  }
  ~EncoderEngine() override { stop(); }

  /// Starts the thread; called once, before anything else.
  Result<void> start() {
    return thread_.start([this] { run(); });
  }
  Result<std::unique_ptr<GenerateStream>> submit(GenerateRequest request) override;
  void stop() override;
  EngineStats stats() const override;
  EngineHistograms histograms() const override {
    return {counters_.step_seconds.counts(), counters_.step_rows.counts(), counters_.step_texts.counts(), {}};
  }
  std::string_view model() const override { return model_; }
  Result<PrefixReport> prefix_report(std::string_view id, const Party& asker) const override;
  int32_t context_tokens() const override { return limits_.context_tokens; }
  std::vector<float> adapter_scales() const override { return adapters_.current(); }
  Result<void> set_adapter_scales(std::span<const AdapterScale> scales) override { return adapters_.set(scales); }

 private:
  using Entry = std::unique_ptr<Submission>;

  void run();
  void drop_cancelled();
  Entry next();
  static void charge(Holdings& had, const Party& party, int64_t tokens) noexcept;
  void fill_batch();
  void run_batch();
  void count_step(int64_t ns);
  void fail_batch(const Error& error) noexcept;
  void leave(Submission& submission, FinishReason reason, std::vector<float> embedding, Error error) noexcept;
  /// `queued`: the time until it was computed; 0: it never was.
  void finish(Submission& submission, FinishReason reason, std::vector<float> embedding, Error error,
              std::chrono::nanoseconds queued = {}) noexcept;

  const std::string model_;
  model::Embedder& embedder_;
  const std::function<Result<void>()> check_weights_;
  const std::shared_ptr<const PowerLimit> power_;  // null: none
  const AdmissionLimits limits_;
  SteadyClock clock_;
  AdapterScales adapters_;
  Tenants tenants_;
  RequestQueue queue_;
  UnnotifiedChannels unnotified_;
  WorkerThread thread_;

  // Members below belong to the engine's thread.
  Stride classes_;
  std::array<Holdings, kPriorities> had_;  // tokens computed for each client that has texts waiting
  Entry carried_;                          // entry that did not fit into the batch before
  std::vector<Entry> batch_;
  std::vector<model::EmbedText> texts_;
  std::vector<float> vectors_;

  struct Counters {
    std::atomic<int32_t> active = 0;
    std::atomic<int32_t> carried = 0;
    std::atomic<int64_t> total = 0;
    std::atomic<int64_t> cancelled = 0;
    std::atomic<int64_t> tokens = 0;
    std::atomic<int64_t> steps = 0;
    std::atomic<int64_t> step_ns = 0;
    std::atomic<int64_t> rested_ns = 0;
    std::atomic<int64_t> last_step_ns = 0;
    std::atomic<int64_t> failed_steps = 0;
    Histogram step_seconds{kStepSecondsBounds};
    Histogram step_rows{kSizeBounds};
    Histogram step_texts{kSizeBounds};
  };
  Counters counters_;
};

Result<std::unique_ptr<GenerateStream>> EncoderEngine::submit(GenerateRequest request) {
  if (!request.embed) {
    return fail_at("model", Code::kUnsupported,
                   "this model is an encoder: it gives embeddings (POST /v1/embeddings) and writes no text");
  }
  CAIRN_TRY(std::vector<float> scales, adapters_.of(request.adapters));
  CAIRN_TRY(Entry submission, check_request(std::move(request), limits_));
  submission->adapter_scales = std::move(scales);
  submission->party = party_of(submission->request.client, submission->request.tenant);
  CAIRN_TRY(submission->ticket, tenants_.admit(submission->request.client, submission->request.tenant));
  submission->arrival_ns = clock_.now().count();
  submission->deadline_ns = submission->arrival_ns;
  submission->channel = std::make_shared<EventChannel>(submission->request.usage_listener);
  auto stream = std::make_unique<ChannelStream>(submission->channel);
  CAIRN_TRY(const Entry displaced, queue_.push(std::move(submission)));
  ++counters_.total;
  if (displaced != nullptr) {
    finish(*displaced, FinishReason::kError, {}, copy_of(displaced_error()));
  }
  return stream;
}

void EncoderEngine::stop() {
  queue_.stop();
  thread_.join();
}

EngineStats EncoderEngine::stats() const {
  EngineStats stats;
  // Waiting requests are counted first: see EngineCounters::stats.
  stats.waiting_requests = queue_.size() + counters_.carried;
  stats.active_requests = counters_.active;
  stats.total_requests = counters_.total;
  stats.cancelled_requests = counters_.cancelled;
  stats.prompt_tokens = counters_.tokens;
  stats.steps = counters_.steps;
  stats.step_time = nanoseconds(counters_.step_ns);
  stats.rested_time = nanoseconds(counters_.rested_ns);
  stats.last_step_time = nanoseconds(counters_.last_step_ns);
  stats.failed_steps = counters_.failed_steps;
  return stats;
}

Result<PrefixReport> EncoderEngine::prefix_report(std::string_view id, const Party& /*asker*/) const {
  return fail_at("request", Code::kNotFound, "there is no request \"{}\": an encoder caches nothing", id);
}

void EncoderEngine::run() {
  while (!queue_.stopped()) {
    const bool all_told = unnotified_.notify_again();
    try {
      drop_cancelled();
      fill_batch();
      if (!batch_.empty()) {
        const auto begin = clock_.now();
        run_batch();
        rest_after_step(power_.get(), clock_.now() - begin, queue_, counters_.rested_ns);
      } else if (all_told) {
        queue_.wait();
      } else {
        queue_.wait_for(kRetryPoll);
      }
    } catch (const std::bad_alloc&) {
      if (batch_.empty()) queue_.wait_for(kRetryPoll);  // instead of a busy loop
      fail_batch(out_of_memory());
    } catch (const std::exception& exception) {
      fail_batch(thrown(exception));
    }
  }
  if (carried_ != nullptr) finish(*carried_, FinishReason::kCancelled, {}, {});
  while (const Entry entry = queue_.pop_any()) finish(*entry, FinishReason::kCancelled, {}, {});
}

void EncoderEngine::drop_cancelled() {
  for (const Entry& entry : queue_.take([](const Submission& s) { return s.channel->cancelled(); })) {
    ++counters_.cancelled;
    finish(*entry, FinishReason::kCancelled, {}, {});
  }
}

// The next entry: the priorities take turns by stride; within one, the oldest entry of the client with the fewest
// tokens so far.
EncoderEngine::Entry EncoderEngine::next() {
  if (carried_ != nullptr) {
    counters_.carried = 0;
    return std::exchange(carried_, nullptr);
  }
  const Stride::Classes waiting = {queue_.has(Priority::kInteractive), queue_.has(Priority::kBatch)};
  classes_.set_wanting(waiting);
  if (!waiting[0] && !waiting[1]) return nullptr;
  const int priority = classes_.next(waiting);
  Holdings& had = had_[priority];
  had.begin();
  queue_.visit(static_cast<Priority>(priority), [&](const Submission& entry) { had.want(entry.party); });
  had.settle();
  Entry entry = queue_.pop(static_cast<Priority>(priority), [&](const Waiting& a, const Waiting& b) {
    const Held of_a = had.of(a.party);
    const Held of_b = had.of(b.party);
    return of_a != of_b ? of_a < of_b : a.deadline_ns < b.deadline_ns;
  });
  if (entry == nullptr) return nullptr;
  const auto tokens = static_cast<int64_t>(entry->request.prompt.size());
  classes_.charge(priority, static_cast<double>(tokens));
  charge(had, entry->party, tokens);
  return entry;
}

// A party that was forgotten meanwhile (it came after the others had been counted) is not charged: nothing may throw
// here.
void EncoderEngine::charge(Holdings& had, const Party& party, int64_t tokens) noexcept try {
  had.add(party, tokens);
} catch (const std::bad_alloc&) {
  return;
}

// Fills the batch with as many texts of one kind of pooling as fit.
void EncoderEngine::fill_batch() {
  int32_t rows_left = std::min(embedder_.batch_tokens_max(), kBatchTokensMax);
  while (batch_.size() < static_cast<size_t>(embedder_.texts_max())) {
    Entry entry = next();
    if (entry == nullptr) return;
    const auto rows = static_cast<int32_t>(entry->request.prompt.size());
    const bool same = batch_.empty() || batch_.front()->request.embed->pooling == entry->request.embed->pooling;
    if (!same || (rows > rows_left && !batch_.empty())) {
      carried_ = std::move(entry);
      counters_.carried = 1;
      return;
    }
    rows_left -= rows;
    batch_.push_back(std::move(entry));
    ++counters_.active;
  }
}

void EncoderEngine::count_step(int64_t ns) {
  ++counters_.steps;
  counters_.step_ns += ns;
  counters_.last_step_ns = ns;
  size_t rows = 0;
  for (const Entry& entry : batch_) rows += entry->request.prompt.size();
  counters_.step_seconds.add(static_cast<double>(ns) * 1e-9);
  counters_.step_rows.add(static_cast<double>(rows));
  counters_.step_texts.add(static_cast<double>(batch_.size()));
}

void EncoderEngine::run_batch() {
  const model::Pooling pooling = batch_.front()->request.embed->pooling;
  const size_t width = pooling == model::Pooling::kRank ? 1 : static_cast<size_t>(limits_.embedding.dimensions);
  const int64_t begin_ns = clock_.now().count();
  texts_.clear();
  for (const Entry& entry : batch_) {
    texts_.push_back({entry->request.prompt, entry->request.embed->second_begin, entry->adapter_scales});
  }
  vectors_.resize(batch_.size() * width);
  Result<void> done = embedder_.embed(texts_, pooling, vectors_);
  if (done && check_weights_) done = check_weights_();
  count_step(clock_.now().count() - begin_ns);
  if (!done) {
    ++counters_.failed_steps;
    for (const Entry& entry : batch_) leave(*entry, FinishReason::kError, {}, done.error());
    batch_.clear();
    return;
  }
  for (size_t i = 0; i < batch_.size(); ++i) {
    const auto vector = std::span<const float>(vectors_).subspan(i * width, width);
    std::vector<float> embedding(vector.begin(), vector.end());
    counters_.tokens += static_cast<int64_t>(batch_[i]->request.prompt.size());
    leave(*batch_[i], FinishReason::kStop, std::move(embedding), {});
  }
  batch_.clear();
}

void EncoderEngine::fail_batch(const Error& error) noexcept {
  for (const Entry& entry : batch_) {
    if (entry->channel != nullptr) leave(*entry, FinishReason::kError, {}, copy_of(error));
  }
  batch_.clear();
}

// Finishes an entry of the batch, once.
void EncoderEngine::leave(Submission& submission, FinishReason reason, std::vector<float> embedding,
                          Error error) noexcept {
  --counters_.active;
  finish(submission, reason, std::move(embedding), std::move(error),
         nanoseconds(clock_.now().count() - submission.arrival_ns));
  submission.channel.reset();
}

void EncoderEngine::finish(Submission& submission, FinishReason reason, std::vector<float> embedding, Error error,
                           std::chrono::nanoseconds queued) noexcept {
  Events events;
  events.finished = true;
  events.finish.reason = reason;
  events.finish.usage.prompt_tokens = static_cast<int32_t>(submission.request.prompt.size());
  events.finish.timings.queue = queued;
  events.finish.embedding = std::move(embedding);
  events.finish.error = std::move(error);
  submission.ticket = TenantTicket();
  unnotified_.publish(submission.channel, std::move(events));
}

}  // namespace

Result<std::unique_ptr<Engine>> make_encoder_engine(model::Embedder& embedder, const EngineOptions& options) {
  if (options.queue_max < 1) {
    return fail_at("queue_max", Code::kInvalidArgument, "queue_max is {}; it must be at least 1", options.queue_max);
  }
  auto engine = std::make_unique<EncoderEngine>(embedder, options);
  CAIRN_TRY_VOID(engine->start());
  return engine;
}

}  // namespace cairn::engine
