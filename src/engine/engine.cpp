#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "engine/event_channel.h"
#include "engine/request_queue.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"

namespace cairn {
namespace {

class ChannelStream final : public GenerateStream {
 public:
  explicit ChannelStream(std::shared_ptr<EventChannel> channel) : channel_(std::move(channel)) {}
  ~ChannelStream() override { channel_->abandon(); }

  Events drain() override { return channel_->drain(); }
  Events wait(std::chrono::milliseconds timeout) override { return channel_->wait(timeout); }
  void on_events(std::function<void()> notify) override { channel_->on_events(std::move(notify)); }
  void cancel() override { channel_->cancel(); }

 private:
  std::shared_ptr<EventChannel> channel_;
};

int32_t pages_for(int32_t tokens) { return static_cast<int32_t>((int64_t{tokens} + kPageTokens - 1) / kPageTokens); }

Result<void> check_stops(const std::vector<std::string>& stops) {
  if (stops.size() > kStopStringsMax) {
    return fail_at("stop", Code::kInvalidArgument, "there are {} stop strings; at most {} are allowed", stops.size(),
                   kStopStringsMax);
  }
  for (size_t i = 0; i < stops.size(); ++i) {
    const std::string at = fmt::format("stop[{}]", i);
    if (stops[i].empty()) return fail_at(at, Code::kInvalidArgument, "a stop string must not be empty");
    if (stops[i].size() > kStopBytesMax) {
      return fail_at(at, Code::kInvalidArgument, "a stop string has {} bytes; at most {} are allowed", stops[i].size(),
                     kStopBytesMax);
    }
    if (!utf8_valid(stops[i])) return fail_at(at, Code::kInvalidArgument, "a stop string is not valid UTF-8");
  }
  return {};
}

Events cancelled_before_start(const Submission& submission) {
  Events events;
  events.finished = true;
  events.finish.reason = FinishReason::kCancelled;
  events.finish.usage.prompt_tokens = static_cast<int32_t>(submission.request.prompt.size());
  return events;
}

class ThreadEngine final : public Engine {
 public:
  ThreadEngine(Runner& runner, const Tokenizer& tokenizer, const EngineOptions& options, PagePool&& pool);
  ~ThreadEngine() override { stop(); }

  Result<std::unique_ptr<GenerateStream>> submit(GenerateRequest request) override;
  void stop() override;
  EngineStats stats() const override;
  int32_t context_tokens() const override { return runner_.context_tokens(); }

 private:
  Result<std::unique_ptr<Submission>> check(GenerateRequest&& request) const;

  // Everything below runs on thread_.
  void run();
  void turn();
  void drop_cancelled();
  void admit();
  void plan();
  void emit(const LogitsView& logits);
  void retire(std::unique_ptr<Sequence>& sequence, Events&& events);
  void fail_at_stake(const Error& error);
  void end_all();

  // What an exception or a failed step takes with it.
  enum class AtStake {
    kNothing,
    kAdmission,  // admitting_
    kBatch,      // all sequences of plan_
    kSequence,   // running_[at_stake_sequence_]
  };

  Runner& runner_;
  const Tokenizer& tokenizer_;
  PagePool pool_;
  const StepLimits limits_;
  const int32_t running_max_;
  const int32_t vocabulary_;
  RequestQueue queue_;

  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission; null once retired within a turn
  int32_t pages_promised_ = 0;                      // sum of pages_max over running_
  int64_t next_id_ = 0;
  SamplerScratch scratch_;
  std::vector<Demand> demands_;
  std::vector<Share> plan_;
  std::vector<TokenId> batch_tokens_;
  std::vector<BatchSlice> batch_slices_;
  std::shared_ptr<EventChannel> admitting_;
  AtStake at_stake_ = AtStake::kNothing;
  size_t at_stake_sequence_ = 0;

  std::atomic<int32_t> active_ = 0;
  std::atomic<int32_t> pages_free_;
  std::atomic<int64_t> total_requests_ = 0;
  std::atomic<int64_t> tokens_generated_ = 0;
  std::atomic<int64_t> prompt_tokens_ = 0;
  std::atomic<int64_t> steps_ = 0;

  std::mutex join_mutex_;
  std::thread thread_;  // last: everything it uses is there before it starts
};

ThreadEngine::ThreadEngine(Runner& runner, const Tokenizer& tokenizer, const EngineOptions& options, PagePool&& pool)
    : runner_(runner),
      tokenizer_(tokenizer),
      pool_(std::move(pool)),
      limits_{runner.rows_max(), runner.logit_rows_max(), options.chunk_rows_max},
      // So every sequence can have a row of each step, and its logits.
      running_max_(std::min({options.running_max, runner.rows_max(), runner.logit_rows_max()})),
      vocabulary_(static_cast<int32_t>(runner.vocabulary())),
      queue_(options.queue_max),
      pages_free_(pool_.pages_free()) {
  const auto sequences = static_cast<size_t>(running_max_);
  running_.reserve(sequences);
  scratch_.reserve(vocabulary_);
  demands_.reserve(sequences);
  plan_.reserve(sequences);
  batch_tokens_.reserve(static_cast<size_t>(limits_.rows_max));
  batch_slices_.reserve(sequences);
  thread_ = std::thread([this] { run(); });
}

void ThreadEngine::stop() {
  queue_.stop();
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

EngineStats ThreadEngine::stats() const {
  EngineStats stats;
  // Waiting first: a request that is admitted in between is seen twice rather than not at all.
  stats.waiting_requests = queue_.size();
  stats.active_requests = active_;
  stats.total_requests = total_requests_;
  stats.tokens_generated = tokens_generated_;
  stats.prompt_tokens = prompt_tokens_;
  stats.steps = steps_;
  stats.pages_total = pool_.pages_total();
  stats.pages_free = pages_free_;
  return stats;
}

Result<std::unique_ptr<Submission>> ThreadEngine::check(GenerateRequest&& request) const {
  if (request.prompt.empty()) {
    return fail_at("prompt", Code::kInvalidArgument, "the prompt has no tokens; at least one is needed");
  }
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const int32_t token = index(request.prompt[i]);
    if (token >= 0 && token < vocabulary_) continue;
    return fail_at(fmt::format("prompt[{}]", i), Code::kInvalidArgument,
                   "the prompt names token {}; this model has tokens 0 to {}", token, vocabulary_ - 1);
  }
  CAIRN_TRY_VOID(request.sampling.validate(vocabulary_));
  CAIRN_TRY_VOID(check_stops(request.stop));
  if (request.max_tokens < 1 && request.max_tokens != -1) {
    return fail_at("max_tokens", Code::kInvalidArgument,
                   "max_tokens is {}; it must be at least 1, or -1 for the rest of the context", request.max_tokens);
  }

  const int32_t context = context_tokens();
  if (request.prompt.size() >= static_cast<size_t>(context)) {
    return fail_at("prompt", Code::kContextLengthExceeded,
                   "the prompt has {} tokens, but the context has {}, of which one must be left for the answer: "
                   "shorten the prompt or start with a longer context",
                   request.prompt.size(), context);
  }
  const auto prompt = static_cast<int32_t>(request.prompt.size());
  auto submission = std::make_unique<Submission>();
  submission->tokens_max = request.max_tokens == -1 ? context : prompt + std::min(request.max_tokens, context - prompt);
  // The last token of the answer is never computed, so it needs no place; the pool may end before the context does.
  const int64_t pool_tokens = int64_t{pool_.pages_total()} * kPageTokens + 1;
  if (request.max_tokens == -1 && prompt < pool_tokens) {
    submission->tokens_max = static_cast<int32_t>(std::min<int64_t>(submission->tokens_max, pool_tokens));
  }
  submission->pages_max = pages_for(submission->tokens_max - 1);
  if (submission->pages_max > pool_.pages_total()) {
    return fail(
        Code::kTooLarge,
        "the request may need {} KV pages of {} tokens for its prompt of {} tokens and an answer of up to {}; the "
        "pool has {}: lower max_tokens, shorten the prompt or raise --kv-bytes",
        submission->pages_max, kPageTokens, prompt, submission->tokens_max - prompt, pool_.pages_total());
  }
  submission->request = std::move(request);
  return submission;
}

Result<std::unique_ptr<GenerateStream>> ThreadEngine::submit(GenerateRequest request) {
  CAIRN_TRY(std::unique_ptr<Submission> submission, check(std::move(request)));
  submission->channel = std::make_shared<EventChannel>();
  auto stream = std::make_unique<ChannelStream>(submission->channel);
  CAIRN_TRY_VOID(queue_.push(std::move(submission)));
  ++total_requests_;
  return stream;
}

void ThreadEngine::run() {
  while (!queue_.stopped()) {
    if (running_.empty()) queue_.wait();
    at_stake_ = AtStake::kNothing;
    try {
      turn();
    } catch (const std::bad_alloc&) {
      fail_at_stake(Error{Code::kOutOfMemory, "out of memory", {}});
    }
    std::erase(running_, nullptr);
  }
  end_all();
}

void ThreadEngine::turn() {
  drop_cancelled();
  admit();
  if (running_.empty()) return;
  plan();
  at_stake_ = AtStake::kBatch;
  const Result<LogitsView> logits = runner_.step({batch_tokens_, batch_slices_, &pool_});
  ++steps_;
  if (!logits.has_value()) {
    fail_at_stake(logits.error());
    return;
  }
  emit(*logits);
}

void ThreadEngine::drop_cancelled() {
  for (std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->channel().cancelled()) retire(sequence, sequence->end(FinishReason::kCancelled, {}));
  }
  for (const auto& submission : queue_.take([](const Submission& s) { return s.channel->cancelled(); })) {
    submission->channel->publish(cancelled_before_start(*submission));
  }
}

void ThreadEngine::admit() {
  std::erase(running_, nullptr);
  while (running_.size() < static_cast<size_t>(running_max_)) {
    const auto fits = [this](const Submission& submission) {
      if (submission.pages_max > pool_.pages_total() - pages_promised_) return false;
      ++active_;  // before it stops waiting: see stats
      return true;
    };
    const std::unique_ptr<Submission> submission = queue_.pop_if(fits);
    if (submission == nullptr) return;
    at_stake_ = AtStake::kAdmission;
    admitting_ = submission->channel;
    running_.push_back(std::make_unique<Sequence>(SequenceId{next_id_++}, std::move(*submission), tokenizer_,
                                                  vocabulary_, pool_.layout().groups.size(), scratch_));
    pages_promised_ += running_.back()->pages_max();
    at_stake_ = AtStake::kNothing;
    admitting_.reset();
  }
}

// Shares out the step and lays the batch out, with pages for every row.
void ThreadEngine::plan() {
  demands_.clear();
  for (const auto& sequence : running_) demands_.push_back(sequence->demand());
  plan_step(demands_, limits_, plan_);
  CAIRN_CHECK(!plan_.empty());
  batch_tokens_.clear();
  batch_slices_.clear();
  for (const Share& share : plan_) {
    Sequence& sequence = *running_[static_cast<size_t>(share.demand)];
    // Cannot fail: the pages were promised at admission.
    CAIRN_CHECK(pool_.extend(sequence.pages(), sequence.computed() + share.rows));
    const std::span<const TokenId> tokens = sequence.next_tokens(share.rows);
    BatchSlice& slice = batch_slices_.emplace_back();
    slice.sequence = sequence.id();
    slice.row_begin = static_cast<int32_t>(batch_tokens_.size());
    slice.rows = share.rows;
    slice.position_begin = sequence.computed();
    slice.pages = &sequence.pages();
    slice.logits = share.logits ? LogitsWanted::kLast : LogitsWanted::kNone;
    batch_tokens_.insert(batch_tokens_.end(), tokens.begin(), tokens.end());
  }
  pages_free_ = pool_.pages_free();
}

// A sequence moves on only here and only once its events are whole. If memory runs out at one sequence, those after it
// are where they were, and the next step computes their rows again, to the same values.
void ThreadEngine::emit(const LogitsView& logits) {
  at_stake_ = AtStake::kSequence;
  int64_t row = 0;
  for (const Share& share : plan_) {
    at_stake_sequence_ = static_cast<size_t>(share.demand);
    std::unique_ptr<Sequence>& sequence = running_[at_stake_sequence_];
    if (!demands_[at_stake_sequence_].decode) prompt_tokens_ += share.rows;
    sequence->advance(share.rows);
    if (!share.logits) continue;
    Events events = sequence->sample(logits.row(row++));
    ++tokens_generated_;
    if (events.finished) {
      retire(sequence, std::move(events));
    } else {
      sequence->publish(std::move(events));
    }
  }
}

void ThreadEngine::retire(std::unique_ptr<Sequence>& sequence, Events&& events) {
  pool_.release(sequence->pages());
  pages_promised_ -= sequence->pages_max();
  pages_free_ = pool_.pages_free();
  --active_;
  const std::unique_ptr<Sequence> gone = std::move(sequence);
  gone->publish(std::move(events));
}

void ThreadEngine::fail_at_stake(const Error& error) {
  switch (at_stake_) {
    case AtStake::kNothing:
      break;
    case AtStake::kAdmission: {
      --active_;
      Events events;
      events.finished = true;
      events.finish.reason = FinishReason::kError;
      events.finish.error = error;
      admitting_->publish(std::move(events));
      admitting_.reset();
      break;
    }
    case AtStake::kBatch:
      for (const Share& share : plan_) {
        std::unique_ptr<Sequence>& sequence = running_[static_cast<size_t>(share.demand)];
        if (sequence != nullptr) retire(sequence, sequence->end(FinishReason::kError, error));
      }
      break;
    case AtStake::kSequence: {
      std::unique_ptr<Sequence>& sequence = running_[at_stake_sequence_];
      retire(sequence, sequence->end(FinishReason::kError, error));
      break;
    }
  }
}

void ThreadEngine::end_all() {
  for (std::unique_ptr<Sequence>& sequence : running_) retire(sequence, sequence->end(FinishReason::kCancelled, {}));
  running_.clear();
  while (const auto submission = queue_.pop_if([](const Submission&) { return true; })) {
    submission->channel->publish(cancelled_before_start(*submission));
  }
}

Result<void> check_options(const EngineOptions& options) {
  const std::pair<const char*, int32_t> values[] = {{"kv_pages", options.kv_pages},
                                                    {"queue_max", options.queue_max},
                                                    {"running_max", options.running_max},
                                                    {"chunk_rows_max", options.chunk_rows_max}};
  for (const auto& [name, value] : values) {
    if (value < 1) return fail_at(name, Code::kInvalidArgument, "{} is {}; it must be at least 1", name, value);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(Runner& runner, Backend& backend, const Tokenizer& tokenizer,
                                               const EngineOptions& options) {
  CAIRN_TRY_VOID(check_options(options));
  CAIRN_TRY(PagePool pool, PagePool::create(backend, runner.kv_layout(), options.kv_pages));
  try {
    return std::make_unique<ThreadEngine>(runner, tokenizer, options, std::move(pool));
  } catch (const std::system_error& error) {
    return fail(Code::kUnavailable, "cannot start the engine's thread: {}", error.what());
  }
}

}  // namespace cairn
