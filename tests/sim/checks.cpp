// Invariants that are checked after every iteration of a simulation, and at its end.
#include <algorithm>
#include <limits>
#include <utility>

#include "engine/scheduling/fair_shares.h"
#include "sim/simulation.h"

namespace cairn::sim {

using std::chrono::nanoseconds;

void Simulation::check_iteration(engine::EngineCore::Iteration iteration) {
  const auto running = core_->running();
  const auto ready = core_->pending();
  switch (iteration) {
    case engine::EngineCore::Iteration::kIdle:
      if (!running.empty() || !ready.empty() || core_->queue().size() > 0) {
        wrong("idle with {} running, {} put back, {} in the queue", running.size(), ready.size(),
              core_->queue().size());
      }
      break;
    case engine::EngineCore::Iteration::kStalled:
      // If some client reads, something can be computed: the first sequence always has memory.
      for (const auto& sequence : running) {
        if (!sequence->channel().stalled()) wrong("nothing is computed though a client listens");
      }
      if (running.empty()) {
        for (const auto& sequence : ready) {
          if (!sequence->channel().stalled()) wrong("nothing runs though a client waits");
        }
      }
      break;
    case engine::EngineCore::Iteration::kLoading:
      if (!std::ranges::any_of(running, [](const auto& s) { return s->memory().disk.load != nullptr; }))
        wrong("nothing is computed, and nothing comes from the disk");
      break;
    case engine::EngineCore::Iteration::kWorked:
      if (step_.ns <= 0) wrong("a iteration without a step");
      break;
  }
}

void Simulation::check_pages() {
  for (const auto& sequence : core_->pending()) {
    for (const auto& pages : sequence->memory().table.groups) {
      if (!pages.empty()) wrong("a sequence that was put back has pages");
    }
    if (sequence->memory().computed != 0) wrong("a sequence that was put back has computed rows");
  }
  std::vector<uint64_t> salts;
  for (int32_t group = 0; group < core_->pool().groups(); ++group) check_group(group, salts);
  const engine::EngineStats stats = core_->stats();
  int32_t used_most = -1;
  for (int32_t group = 0; group < core_->pool().groups(); ++group) {
    if (core_->pool().pages_total(group) != stats.pages_total) continue;
    const int32_t free = core_->pool().pages_free(group);
    const int32_t cached = core_->prefix_cache().pages_evictable(group);
    if (stats.pages_free == free && stats.pages_cached == cached) used_most = group;
  }
  if (used_most < 0) wrong("the gauges show pages that no group has");
}

// Every page is free, used by running sequences, or the cache's alone; and its reference count is its number of uses.
void Simulation::check_group(int32_t group, std::vector<uint64_t>& salts) {
  const cache::PagePool& pool = core_->pool();
  const bool state = pool.layout().groups[static_cast<size_t>(group)].kind == cache::KvKind::kState;
  held_.assign(static_cast<size_t>(pool.pages_total(group)), 0);
  salts.assign(held_.size(), std::numeric_limits<uint64_t>::max());
  for (const auto& sequence : core_->running()) {
    const engine::SequenceMemory& memory = sequence->memory();
    if (memory.table.groups.empty()) continue;
    const std::vector<PageId>& pages = memory.table.groups.at(static_cast<size_t>(group));
    const auto size = static_cast<int32_t>(pages.size());
    const int32_t size_min = state ? std::min(memory.computed, 1) : cache::pages_for(memory.computed);
    // No pages are kept for drafts.
    const int32_t size_max = state ? 1 : cache::pages_for(static_cast<int32_t>(sequence->tokens().size()));
    if (size < size_min || size > size_max) {
      wrong("group {}: {} pages, but {} tokens were computed of {}", group, size, memory.computed,
            sequence->tokens().size());
    }
    for (const PageId page : pages) {
      if (page == kNoPage) continue;
      const auto at = static_cast<size_t>(index(page));
      ++held_[at];
      if (salts[at] != std::numeric_limits<uint64_t>::max() && salts[at] != sequence->caching().salt()) {
        wrong("group {}: page {} is shared by two tenants", group, at);
      }
      salts[at] = sequence->caching().salt();
    }
  }
  int32_t free = 0, cached = 0;
  for (size_t page = 0; page < held_.size(); ++page) {
    const int32_t references = pool.references(group, PageId{static_cast<int32_t>(page)});
    const int32_t of_index = references - held_[page];
    if (of_index < 0 || of_index > 1 || (of_index == 1 && !options_.engine.prefix_cache)) {
      wrong("group {}, page {}: {} references, {} by running sequences", group, page, references, held_[page]);
    }
    free += references == 0 ? 1 : 0;
    cached += held_[page] == 0 && of_index == 1 ? 1 : 0;
  }
  if (free != pool.pages_free(group)) wrong("group {}: {} pages free, {} said", group, free, pool.pages_free(group));
  const int32_t evictable = core_->prefix_cache().pages_evictable(group);
  if (cached != evictable) wrong("group {}: {} pages cached, {} said", group, cached, evictable);
}

void Simulation::check_counts() {
  const auto running = core_->running();
  const engine::EngineStats stats = core_->stats();
  const auto active = static_cast<int32_t>(running.size());
  const auto waiting = static_cast<int32_t>(core_->pending().size()) + core_->queue().size();
  if (active > sequences_max_) wrong("{} sequences run, {} may", active, sequences_max_);
  const auto batch =
      std::ranges::count(running, engine::Priority::kBatch, [](const auto& s) { return s->order().priority(); });
  if (batch > std::max(1, sequences_max_ * 3 / 4)) wrong("{} of {} sequences are batch", batch, sequences_max_);
  if (stats.active_requests != active) wrong("{} active, {} said", active, stats.active_requests);
  if (stats.waiting_requests != waiting) wrong("{} waiting, {} said", waiting, stats.waiting_requests);
  if (stats.total_requests != accepted_) wrong("{} accepted, {} said", accepted_, stats.total_requests);
  if (core_->queue().size() > options_.engine.queue_max) wrong("the queue is longer than it may be");
  // Every request without a finish is waiting or running. Requests whose client has left cannot be counted.
  if (!someone_left_ && active + waiting > static_cast<int32_t>(present_.size())) wrong("a finished request goes on");
}

// The request of a client that has gone leaves nothing behind after the next iteration.
void Simulation::check_cancelled() {
  const auto check = [this](const engine::Sequence& sequence) {
    const Visitor& visitor = visitor_of(sequence);
    if (visitor.gone_by_iteration >= 0 && visitor.gone_by_iteration <= iterations_) {
      wrong("request {} was cancelled and is still there", &visitor - visitors_.data());
    }
  };
  for (const auto& sequence : core_->running()) check(*sequence);
  for (const auto& sequence : core_->pending()) check(*sequence);
  for (const size_t i : present_) {
    if (visitors_[i].gone_by_iteration >= 0 && visitors_[i].gone_by_iteration <= iterations_) {
      wrong("request {} was cancelled and has no finish", i);
    }
  }
}

// An interactive request that is read is preempted only for one that comes before it; for its pages, when a step is
// planned, only after all batch requests.
void Simulation::check_victims() {
  for (const auto& victim : core_->pending()) {
    if (victim->order().priority() != engine::Priority::kInteractive ||
        victim->order().preempt_reason() == engine::PreemptReason::kUnread)
      continue;
    if (std::ranges::find(ran_, victim->id()) == ran_.end()) continue;
    bool first = true;
    for (const auto& sequence : core_->running()) {
      if (sequence == nullptr) continue;
      first = first && !sequence->order().precedes(victim->order());
      if (sequence->order().priority() == engine::Priority::kBatch &&
          victim->order().preempt_reason() == engine::PreemptReason::kPages) {
        wrong("an interactive request is put back and a batch one is not");
      }
    }
    if (first) wrong("the first of all is put back");
  }
}

std::unordered_map<uint64_t, int32_t> Simulation::queued_by_client() const {
  std::unordered_map<uint64_t, int32_t> queued;
  for (const engine::Priority priority : {engine::Priority::kInteractive, engine::Priority::kBatch}) {
    core_->queue().visit(priority, [&](const engine::Submission& submission) { ++queued[submission.party.client]; });
  }
  return queued;
}

// A request that entered the full queue took the place of one of the party that had most, and its party has no more
// than that now.
void Simulation::check_displaced(const engine::GenerateRequest& request,
                                 const std::unordered_map<uint64_t, int32_t>& before) {
  ++displacements_;
  const uint64_t own = engine::party_of(request.client, request.tenant).client;
  const auto after = queued_by_client();
  for (const auto& [client, queued] : before) {
    const auto now = after.contains(client) ? after.at(client) : 0;
    if (now == queued - 1 && client != own) {
      for (const auto& [other, count] : before) {
        if (count > queued) wrong("a full queue lets a request in for one of somebody who has not most");
      }
      if (now < after.at(own)) wrong("a full queue lets a request in of somebody who has more");
    } else if (now != queued && client != own) {
      wrong("a full queue lost {} requests of one client for one", queued - now);
    }
  }
  if (core_->queue().size() != options_.engine.queue_max) wrong("a request was let into a full queue");
}

void Simulation::note_waiting() {
  waited_.clear();
  std::vector<bool> runs(visitors_.size());
  for (const auto& sequence : core_->running()) runs[by_channel_.at(&sequence->channel())] = true;
  for (const size_t i : present_) {
    const Visitor& visitor = visitors_[i];
    if (!runs[i] && !visitor.channel->unread() && visitor.gone_by_iteration < 0) waited_.push_back(i);
  }
}

// No request waits while one whose client does not read is running.
void Simulation::check_yielded() {
  std::vector<bool> waits(visitors_.size());
  for (const size_t i : waited_) waits[i] = visitors_[i].gone_by_iteration < 0;
  int64_t batch = 0;
  bool unread = false, unread_batch = false;
  for (const auto& sequence : core_->running()) {
    const Visitor& visitor = visitor_of(*sequence);
    waits[static_cast<size_t>(&visitor - visitors_.data())] = false;
    const bool is_batch = sequence->order().priority() == engine::Priority::kBatch;
    batch += is_batch ? 1 : 0;
    if (visitor.stalled_since < nanoseconds(0) || !sequence->channel().stalled()) continue;
    unread = true;
    unread_batch = unread_batch || is_batch;
  }
  if (!unread) return;
  const auto check = [&](const engine::EventChannel* channel, engine::Priority priority) {
    const bool batch_is_full = batch >= std::max(1, sequences_max_ * 3 / 4) && !unread_batch;
    const size_t i = by_channel_.at(channel);
    if (waits[i] && !(priority == engine::Priority::kBatch && batch_is_full)) {
      wrong("request {} waits beside one whose client does not read", i);
    }
  };
  for (const auto& sequence : core_->pending()) check(&sequence->channel(), sequence->order().priority());
  for (const engine::Priority priority : {engine::Priority::kInteractive, engine::Priority::kBatch}) {
    core_->queue().visit(priority, [&](const engine::Submission& s) { check(s.channel.get(), priority); });
  }
}

// In a step no request waits while another client runs so many more that it would still have as many after giving one
// away. (A request that waits for memory may keep the other class from being considered.)
void Simulation::check_shares() {
  engine::Holdings running;
  for (const auto& sequence : core_->running()) {
    if (sequence != nullptr && sequence->order().priority() == engine::Priority::kInteractive)
      running.add(sequence->party(), 1);
  }
  bool batch_waits = false;
  std::vector<engine::Party> waiting;
  for (const auto& sequence : core_->pending()) {
    if (std::ranges::find(waited_, by_channel_.at(&sequence->channel())) == waited_.end()) continue;
    batch_waits = batch_waits || sequence->order().priority() == engine::Priority::kBatch;
    if (sequence->order().priority() == engine::Priority::kInteractive) waiting.push_back(sequence->party());
  }
  core_->queue().visit(engine::Priority::kBatch, [&](const engine::Submission&) { batch_waits = true; });
  core_->queue().visit(engine::Priority::kInteractive, [&](const engine::Submission& submission) {
    const bool waited = std::ranges::find(waited_, by_channel_.at(submission.channel.get())) != waited_.end();
    if (waited) waiting.push_back(submission.party);
  });
  if (batch_waits) return;
  const auto runs = std::ranges::count_if(core_->running(), [](const auto& sequence) { return sequence != nullptr; });
  const bool full = runs == sequences_max_;
  // A party that lost an unread sequence to a step's need for pages had its share when others were admitted.
  const auto lost_unread = [&](const engine::Party& party) {
    return std::ranges::any_of(core_->pending(), [&](const auto& sequence) {
      return sequence->party().client == party.client &&
             sequence->order().preempt_reason() == engine::PreemptReason::kUnread &&
             std::ranges::find(ran_, sequence->id()) != ran_.end();
    });
  };
  for (const engine::Party& party : waiting) {
    if (lost_unread(party)) continue;
    for (const auto& sequence : core_->running()) {
      if (sequence == nullptr || sequence->order().priority() != engine::Priority::kInteractive) continue;
      if (!running.yields(sequence->party(), party)) continue;
      // Tenants of one client may have to wait until another client's request has memory.
      if (sequence->party().client == party.client && !full) continue;
      wrong("somebody waits who runs {}, beside one who runs {}", running.of(party).client,
            running.of(sequence->party()).client);
    }
  }
}

// A client that reads nothing keeps its pages for kStallMax.
void Simulation::note_stalled() {
  for (const size_t i : present_) {
    Visitor& visitor = visitors_[i];
    if (!visitor.channel->stalled()) visitor.stalled_since = nanoseconds(-1);
    if (visitor.channel->stalled() && visitor.stalled_since < nanoseconds(0)) visitor.stalled_since = clock_.now();
  }
}

void Simulation::check_stalled(nanoseconds begin) {
  for (const auto& sequence : core_->running()) {
    const Visitor& visitor = visitor_of(*sequence);
    if (visitor.stalled_since >= nanoseconds(0) && begin - visitor.stalled_since > engine::kStallMax) {
      wrong("request {} keeps its pages though its client takes nothing", &visitor - visitors_.data());
    }
  }
}

void Simulation::check_finish(size_t i) {
  const Visitor& visitor = visitors_[i];
  const engine::Answer& expected = visitor.expected;
  const engine::Answer& answer = visitor.answer;
  const engine::Finish& finish = answer.finish;
  const bool prefix = answer.tokens.size() <= expected.tokens.size() &&
                      std::equal(answer.tokens.begin(), answer.tokens.end(), expected.tokens.begin());
  if (!prefix || !expected.text.starts_with(answer.text)) {
    wrong("request {} answered {} tokens \"{}\" where the plain loop gives {} \"{}\"", i, answer.tokens.size(),
          answer.text, expected.tokens.size(), expected.text);
  }
  const engine::Usage& usage = finish.usage;
  const auto prompt = static_cast<int32_t>(visitor.plan.request.prompt.size());
  if (usage.prompt_tokens != prompt && finish.reason != engine::FinishReason::kError) {
    wrong("request {}: usage has {} prompt tokens of {}", i, usage.prompt_tokens, prompt);
  }
  if (usage.cached_tokens >= prompt || (usage.cached_tokens > 0 && !options_.engine.prefix_cache)) {
    wrong("request {}: {} of {} prompt tokens were cached", i, usage.cached_tokens, prompt);
  }
  switch (finish.reason) {
    case engine::FinishReason::kCancelled:
      ++cancelled_;
      if (visitor.gone_by_iteration < 0 && !stopped_) wrong("request {} was cancelled by nobody", i);
      return;
    case engine::FinishReason::kError:
      if (finish.error.code == Code::kQueueFull) {
        if (visitor.admitted_iteration < 0) return void(++displaced_);
        if (visitor.plan.client.silence == nanoseconds(0)) wrong("request {} ended though its client reads", i);
        return;
      }
      if (failures_ == 0) wrong("request {} failed: {}", i, finish.error.text());
      return;
    case engine::FinishReason::kStop:
    case engine::FinishReason::kLength:
    case engine::FinishReason::kRepetition:
      break;
  }
  if (answer.tokens != expected.tokens || answer.text != expected.text || finish.reason != expected.finish.reason ||
      finish.stop != expected.finish.stop || usage.completion_tokens != expected.finish.usage.completion_tokens) {
    wrong("request {} answered \"{}\" ({}) where the plain loop gives \"{}\" ({})", i, answer.text,
          static_cast<int>(finish.reason), expected.text, static_cast<int>(expected.finish.reason));
  }
  const engine::Timings& timings = finish.timings;
  if (timings.max_inter_token_latency > timings.decode || timings.accepted > timings.drafted)
    wrong("request {}: odd timings", i);
  const nanoseconds sum = timings.queue + timings.prefill + timings.decode;
  const nanoseconds all = clock_.now() - visitor.arrived;
  const Client& client = visitor.plan.client;
  const bool at_once = client.takes_every == 1 && client.silence == nanoseconds(0) && !stopped_;
  if (sum > all || (at_once && sum != all))
    wrong("request {} took {} ns, its timings say {}", i, all.count(), sum.count());
}

void Simulation::check_end() {
  const engine::EngineStats stats = core_->stats();
  if (stats.active_requests != 0 || stats.waiting_requests != 0) wrong("something is left");
  if (!someone_left_) {
    engine::Usage usage;
    engine::Timings timings;
    bool whole = true;  // whether every prompt was computed exactly once, except for cached parts
    for (const Visitor& visitor : visitors_) {
      if (visitor.refused) continue;
      const engine::Finish& finish = visitor.answer.finish;
      usage.prompt_tokens += finish.usage.prompt_tokens;
      usage.completion_tokens += finish.usage.completion_tokens;
      usage.cached_tokens += finish.usage.cached_tokens;
      timings.preemptions += finish.timings.preemptions;
      timings.drafted += finish.timings.drafted;
      timings.accepted += finish.timings.accepted;
      whole =
          whole && finish.reason != engine::FinishReason::kCancelled && finish.reason != engine::FinishReason::kError;
    }
    if (!stopped_ && stats.cancelled_requests != cancelled_) {
      wrong("{} finishes say cancelled, {} are counted", cancelled_, stats.cancelled_requests);
    }
    if (failures_ == 0 &&
        (stats.tokens_generated != usage.completion_tokens || stats.preemptions != timings.preemptions ||
         stats.drafted_tokens != timings.drafted || stats.accepted_tokens != timings.accepted)) {
      wrong("the counts of {} tokens, {} preemptions, {} of {} drafts are not those of the requests: {}, {}, {} of {}",
            stats.tokens_generated, stats.preemptions, stats.accepted_tokens, stats.drafted_tokens,
            usage.completion_tokens, timings.preemptions, timings.accepted, timings.drafted);
    }
    if (whole && failures_ == 0 && stats.preemptions == 0 &&
        (stats.cached_tokens != usage.cached_tokens ||
         stats.prompt_tokens + usage.cached_tokens != usage.prompt_tokens)) {
      wrong("{} tokens of prompts were computed, {} found in the cache, of {}", stats.prompt_tokens,
            stats.cached_tokens, usage.prompt_tokens);
    }
  }
  if (!someone_left_ && displaced_ != displacements_) {
    wrong("{} requests say that they made room in the queue, {} did", displaced_, displacements_);
  }
  core_->prefix_cache().clear();
  for (int32_t group = 0; group < core_->pool().groups(); ++group) {
    const int32_t lost = core_->pool().pages_total(group) - core_->pool().pages_free(group);
    if (lost != 0) wrong("group {}: {} pages are never free again", group, lost);
  }
  const int64_t slots = options_.engine.kv_host_bytes / host_slot_bytes(options_.model.layout);
  if (core_->prefix_cache().host_slots_free() != slots) wrong("pages of the second tier are never free again");
}

}  // namespace cairn::sim
