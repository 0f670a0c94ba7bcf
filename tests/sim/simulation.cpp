#include "sim/simulation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/request_validation.h"

namespace cairn::sim {
namespace {

using std::chrono::nanoseconds;

/// How often the engine's thread checks clients that read nothing.
constexpr std::chrono::milliseconds kStallPoll{10};
/// Maximum turns of a simulation.
constexpr int64_t kTurnsMax = 200'000;
/// Idle turns after which a request that still waits has been forgotten.
constexpr int64_t kIdleTurnsMax = 100;

cache::PagePool make_pool(kernels::DeviceMemory& memory, const SimulationOptions& options) {
  return cache::PagePool::create(memory, options.model.layout, options.engine.kv_pages).value();
}

}  // namespace

int64_t host_slot_bytes(const cache::KvLayout& layout) {
  int64_t bytes = 0;
  for (const cache::KvGroup& group : layout.groups) bytes += layout.page_bytes(group);
  return bytes;
}

Simulation::Simulation(const tokenizer::Tokenizer& tokenizer, const SimulationOptions& options)
    : tokenizer_(tokenizer),
      options_(options),
      sequences_max_(
          std::min({options.engine.sequences_max, options.model.batch_tokens_max, options.model.logits_max})),
      start_(clock_.now()),
      model_(options.model, clock_),
      random_(options.seed) {
  const engine::SpeculationOptions& speculation = options_.engine.speculation;
  core_ = std::make_unique<engine::EngineCore>(
      model_, tokenizer_, options_.engine, make_pool(memory_, options_),
      speculation.tokens_max > 0 ? engine::make_prompt_lookup(speculation.ngram_max) : nullptr, clock_);
  if (options_.engine.kv_host_bytes > 0 && !core_->use_host_tier(options_.engine.kv_host_bytes).has_value()) {
    wrong("no memory for the second tier");
  }
  if (options_.disk != nullptr) open_disk();
  model_.on_step([this](const model::Batch& batch) { in_step(batch); });
}

void Simulation::open_disk() {
  auto files = std::make_unique<cache::disk::MemoryFiles>(*options_.disk);
  files->calls_left = options_.disk_calls;
  auto store = cache::disk::PageStore::open(*files, "/kv", {.unix_s = [] { return int64_t{1}; }});
  // Killed before it has opened the folder.
  if (!store.has_value() && options_.disk_calls >= 0) return;
  if (!store.has_value()) return wrong("no disk: {}", store.error().text());
  disk_ = std::make_shared<cache::disk::DiskWorker>(std::move(files), std::move(*store));
  auto tier = cache::disk::DiskTier::create(disk_, options_.model.layout, "the simulated model", "{}", {1, 1});
  if (!tier.has_value() && options_.disk_calls >= 0) return;
  if (!tier.has_value() || !core_->use_disk(std::move(*tier)).has_value()) wrong("no disk tier");
}

// As fast as a disk may be: none to some pages in an iteration.
void Simulation::work_on_disk() {
  if (disk_ == nullptr) return;
  for (uint64_t reads = random_() % 4; reads > 0; --reads) disk_->read_step();
  for (uint64_t writes = random_() % 16; writes > 0; --writes) disk_->write_step();
}

void Simulation::flush() {
  core_->prefix_cache().save_all([] { return true; });
  while (disk_ != nullptr && disk_->write_step()) continue;
}

int32_t Simulation::tokens_max(const engine::GenerateRequest& request) const {
  const int32_t context = options_.model.context_tokens;
  if (request.max_tokens > 0)
    return std::min(context, static_cast<int32_t>(request.prompt.size()) + request.max_tokens);
  int32_t tokens = context;
  for (size_t group = 0; group < options_.model.layout.groups.size(); ++group) {
    const cache::KvKind kind = options_.model.layout.groups[group].kind;
    if (kind != cache::KvKind::kFull && kind != cache::KvKind::kLatent) continue;
    tokens = std::min(tokens, options_.engine.kv_pages[group] * kernels::kPageTokens + 1);
  }
  return tokens;
}

void Simulation::plan(std::vector<Planned> planned) {
  std::ranges::stable_sort(planned, {}, &Planned::arrival);
  planned_ = std::move(planned);
}

bool Simulation::submit(Planned planned) {
  Visitor visitor;
  visitor.channel = std::make_shared<engine::EventChannel>();
  visitor.arrived = clock_.now();
  const bool full = core_->queue().size() >= options_.engine.queue_max;
  const auto queued = queued_by_client();
  const Result<void> result = core_->submit(engine::GenerateRequest(planned.request), visitor.channel);
  if (!result.has_value()) {
    ++refusals_;
    visitor.refused = true;
    const Code code = result.error().code;
    const bool limited = full || options_.engine.tenant_requests_max > 0;
    if (code != Code::kTooLarge && !(code == Code::kQueueFull && limited)) {
      wrong("a request was refused: {}", result.error().text());
    }
  } else {
    if (full) check_displaced(planned.request, queued);
    ++accepted_;
    visitor.expected = plain_answer(tokenizer_, planned.request, tokens_max(planned.request));
    by_channel_[visitor.channel.get()] = visitors_.size();
    present_.push_back(visitors_.size());
  }
  visitor.plan = std::move(planned);
  visitors_.push_back(std::move(visitor));
  const Client& client = visitors_.back().plan.client;
  if (result.has_value() && client.cancels_after_iteration == 0 && !client.within_step) {
    cancel(visitors_.back(), Phase::kQueue, in_step_);
  }
  return result.has_value();
}

void Simulation::arrive() {
  for (; arrived_ < planned_.size() && start_ + planned_[arrived_].arrival <= clock_.now(); ++arrived_) {
    submit(planned_[arrived_]);
  }
}

// Calls from other threads also come in the middle of steps.
void Simulation::in_step(const model::Batch& batch) {
  in_step_ = true;
  arrive();
  in_step_ = false;
  check_victims();
  check_shares();
  int32_t decoding = 0;
  int64_t attended = 0;
  for (const model::BatchSlice& slice : batch.slices) {
    const auto running = core_->running();
    const auto found = std::ranges::find_if(
        running, [&](const auto& sequence) { return sequence != nullptr && sequence->id() == slice.sequence; });
    if (found == running.end()) return wrong("a sequence is in the batch and does not run");
    engine::Sequence& sequence = **found;
    mark_admitted(sequence);
    Visitor& visitor = visitor_of(sequence);
    if (slice.logits == model::LogitsWanted::kAll) {
      ++decoding;
      step_.decode_rows += slice.rows;
      attended += int64_t{slice.rows} * slice.position_begin;
    } else {
      step_.prompt_rows += slice.rows;
      prompt_rows_[static_cast<size_t>(sequence.order().priority())] += slice.rows;
    }
    const bool prompt = slice.logits != model::LogitsWanted::kAll;
    see(visitor, prompt ? Phase::kPrefill : slice.rows > 1 ? Phase::kSpeculation : Phase::kDecode, true);
    if (sequence.channel().stalled()) wrong("a stalled sequence is in the batch");
  }
  step_.decode_ns = options_.model.cost.quiet_ns(step_.decode_rows, attended);
  // Decode first: every stream is in the step.
  const auto streams = std::ranges::count_if(core_->running(), [](const auto& sequence) {
    return sequence != nullptr && sequence->decoding() && !sequence->channel().unread();
  });
  if (streams > decoding) wrong("{} streams decode, {} of them in the step", streams, decoding);
  const double draw = std::uniform_real_distribution<double>()(random_);
  if (draw >= options_.failing_steps) return;
  ++failures_;
  model_.fail_next(draw < options_.failing_steps / 2 ? Model::Failure::kError : Model::Failure::kNoMemory);
}

void Simulation::mark_admitted(const engine::Sequence& sequence) {
  Visitor& visitor = visitor_of(sequence);
  if (visitor.admitted_iteration >= 0) return;
  visitor.admitted_iteration = iterations_;
  const auto priority = static_cast<size_t>(sequence.order().priority());
  ++admissions_[priority];
  for (const size_t other : present_) {
    if (visitors_[other].admitted_iteration < 0) ++visitors_[other].others[priority];
  }
}

void Simulation::see(Visitor& visitor, Phase phase, bool within_step) {
  const Client& client = visitor.plan.client;
  if (visitor.gone_by_iteration >= 0 || client.within_step != within_step) return;
  const bool by_phase = client.cancels_in == phase && ++visitor.seen_in_phase == client.cancels_at;
  if (by_phase || iterations_ == client.cancels_after_iteration) cancel(visitor, phase, within_step);
}

void Simulation::cancel(Visitor& visitor, Phase phase, bool within_step) {
  ++cancelled_in_[static_cast<size_t>(phase)];
  visitor.gone_by_iteration = iterations_ + (within_step ? 2 : 1);
  if (!visitor.plan.client.leaves) return visitor.channel->cancel();
  visitor.channel->abandon();
  visitor.gone = true;
  someone_left_ = true;
  std::erase(present_, static_cast<size_t>(&visitor - visitors_.data()));
}

void Simulation::see_phases() {
  std::unordered_map<size_t, Phase> phases;
  for (const auto& sequence : core_->running()) {
    mark_admitted(*sequence);
    const Phase phase = !sequence->decoding()                 ? Phase::kPrefill
                        : sequence->drafts().tokens().empty() ? Phase::kDecode
                                                              : Phase::kSpeculation;
    phases[by_channel_.at(&sequence->channel())] = phase;
  }
  for (const auto& sequence : core_->pending()) {
    if (sequence->statistics().was_admitted()) phases[by_channel_.at(&sequence->channel())] = Phase::kPreempted;
  }
  for (const size_t i : std::vector(present_)) {
    const auto phase = phases.find(i);
    see(visitors_[i], phase != phases.end() ? phase->second : Phase::kQueue, false);
  }
}

void Simulation::iterate() {
  arrive();
  step_ = {};
  const nanoseconds begin = clock_.now();
  note_stalled();
  note_waiting();
  ran_.clear();
  for (const auto& sequence : core_->running()) ran_.push_back(sequence->id());
  work_on_disk();
  const engine::EngineCore::Iteration result = core_->iterate();
  step_.ns = static_cast<double>((clock_.now() - begin).count());
  step_.slow_for = model_.slow_for();
  ++iterations_;
  if (!model_.problem().empty()) wrong("{}", model_.problem());
  check_iteration(result);
  check_pages();
  check_counts();
  check_stalled(begin);
  check_yielded();
  take_events();
  check_cancelled();
  if (!problem_.empty()) return;
  see_phases();
  if (iterations_ == options_.stops_after_turn) return stop();
  wait(result);
}

void Simulation::stop() {
  stopped_ = true;
  core_->queue().stop();
  core_->end_all();
  engine::GenerateRequest late;
  late.prompt = {TokenId{5}};
  if (core_->submit(std::move(late), std::make_shared<engine::EventChannel>()).has_value()) {
    wrong("a stopped engine lets a request in");
  }
  check_pages();
  check_counts();
  for (const size_t i : present_) visitors_[i].plan.client.silence = nanoseconds(0);
  take_events();
}

void Simulation::take_events() {
  for (const size_t i : std::vector(present_)) {
    Visitor& visitor = visitors_[i];
    const Client& client = visitor.plan.client;
    const bool asked_to_stop = visitor.gone_by_iteration >= 0 || stopped_;
    if (!asked_to_stop && (clock_.now() < visitor.arrived + client.silence || iterations_ % client.takes_every != 0))
      continue;
    engine::Events events = visitor.channel->drain();
    if (visitor.answer.finished && (events.finished || !events.tokens.empty())) wrong("request {} goes on", i);
    visitor.answer.add(std::move(events));
    if (!visitor.answer.finished) continue;
    visitor.ended_iteration = iterations_;
    std::erase(present_, i);
    check_finish(i);
  }
}

void Simulation::wait(engine::EngineCore::Iteration iteration) {
  if (iteration == engine::EngineCore::Iteration::kWorked) {
    idle_turns_ = 0;
    return;
  }
  if (iteration == engine::EngineCore::Iteration::kStalled) return clock_.advance(kStallPoll);
  if (iteration == engine::EngineCore::Iteration::kLoading) return clock_.advance(std::chrono::milliseconds(1));
  nanoseconds next = nanoseconds::max();
  if (arrived_ < planned_.size()) next = start_ + planned_[arrived_].arrival;
  for (const size_t i : present_) {
    const nanoseconds speaks = visitors_[i].arrived + visitors_[i].plan.client.silence;
    if (speaks > clock_.now()) next = std::min(next, speaks);
  }
  if (next < nanoseconds::max()) {
    clock_.advance_to(next);
  } else if (++idle_turns_ > kIdleTurnsMax && !present_.empty()) {
    wrong("request {} has no finish though the engine is idle", present_.front());
  }
}

bool Simulation::done() const { return stopped_ || (arrived_ == planned_.size() && present_.empty()); }

void Simulation::settle() {
  while (problem_.empty() && !done()) {
    iterate();
    if (iterations_ > kTurnsMax) wrong("it never ends; {} requests are left", present_.size());
  }
  if (stopped_ || !problem_.empty()) return;
  iterate();  // a client that left in the previous iteration is gone after this one
  iterate();
}

void Simulation::run() {
  settle();
  if (!stopped_ && problem_.empty()) {
    // After everything, a request finds the engine as at the beginning.
    Planned last;
    last.request.prompt.assign(40, TokenId{7});
    last.request.max_tokens = 8;
    last.request.tenant = "a";  // which may have as many requests as before
    const int32_t many = std::clamp(options_.engine.tenant_requests_max, 1, options_.engine.queue_max);
    for (int32_t i = 0; i < many; ++i) {
      if (!submit(last)) wrong("a request is refused after all others have gone");
    }
    settle();
  }
  if (problem_.empty()) check_end();
}

}  // namespace cairn::sim
