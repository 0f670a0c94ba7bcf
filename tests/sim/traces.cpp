#include "sim/traces.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "engine/request_validation.h"
#include "sampling/random.h"

namespace cairn::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

class Generator {
 public:
  Generator(const tokenizer::Tokenizer& tokenizer, uint64_t seed) : tokenizer_(tokenizer), seed_(seed), random_(seed) {}

  Trace trace() {
    make_options();
    make_arrivals();
    const int32_t requests = long_answers_ ? pick(1, 5) : pick(2, 20);
    for (int32_t i = 0; i < requests; ++i) trace_.planned.push_back(planned());
    return std::move(trace_);
  }

 private:
  int32_t pick(int32_t low, int32_t high) { return std::uniform_int_distribution(low, std::max(low, high))(random_); }
  bool one_in(int32_t n) { return pick(1, n) == 1; }
  /// A log-uniform number: as likely between 1 and 2 as between 50 and 100.
  double log_uniform(double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<double>()(random_));
  }
  int32_t log_pick(int32_t low, int32_t high) { return static_cast<int32_t>(log_uniform(low, high + 0.99)); }

  void make_options();
  void make_layout();
  void make_arrivals();
  Planned planned();
  std::vector<TokenId> prompt();
  void set_client(Client& client);

  const tokenizer::Tokenizer& tokenizer_;
  const uint64_t seed_;
  std::mt19937_64 random_;
  Trace trace_;
  bool long_answers_ = false;  // so long that a client that does not read stalls its request
  bool tight_ = false;         // little memory, and many requests
  double gap_ns_ = 0;          // mean time between two arrivals
  double burst_ = 0;           // probability that a request arrives together with the one before
  int32_t clients_ = 1;
  nanoseconds now_{0};
};

void Generator::make_layout() {
  ModelOptions& model = trace_.options.model;
  engine::EngineOptions& engine = trace_.options.engine;
  std::vector<cache::KvGroup>& groups = model.layout.groups;
  switch (pick(0, 6)) {
    case 0:
    case 1:
      groups = {full_group()};
      break;
    case 2:
      groups = {full_group(), window_group(pick(2, 100))};
      break;
    case 3:
      groups = {window_group(pick(20, 70)), latent_group()};
      break;
    case 4:
      groups = {full_group(), state_group()};
      break;
    case 5:
      groups = {full_group(), window_group(pick(30, 60)), state_group()};
      break;
    default:
      groups = {full_group(), latent_group()};
  }
  for (const cache::KvGroup& group : groups) {
    const bool paged = group.kind == cache::KvKind::kFull || group.kind == cache::KvKind::kLatent;
    const int32_t least = engine::pages_needed(group, paged ? 1 : model.context_tokens, engine.prefill_chunk_max);
    int32_t pages = log_pick(least, 60);
    if (paged) pages = tight_ ? pick(8, 16) : log_pick(long_answers_ ? 50 : 8, 200);
    engine.kv_pages.push_back(std::max(least, pages));
  }
}

void Generator::make_options() {
  SimulationOptions& options = trace_.options;
  options.seed = seed_;
  long_answers_ = one_in(25);
  tight_ = !long_answers_ && one_in(5);
  ModelOptions& model = options.model;
  model.seed = seed_;
  model.context_tokens = long_answers_ ? 2'048 : 256 << pick(0, 3);
  model.batch_tokens_max = pick(4, 128);
  model.logits_max = pick(1, 32);
  model.cost.flat_ns = log_uniform(1e5, 5e7);
  model.cost.flat_rows = pick(1, 8);
  model.cost.row_ns = log_uniform(1e4, 3e6);
  model.cost.attended_ns = log_uniform(1, 2'000);
  model.cost.noise = pick(0, 3) * 0.05;
  model.cost.slow_one_in = one_in(3) ? pick(20, 200) : 0;
  engine::EngineOptions& engine = options.engine;
  engine.queue_max = one_in(4) ? pick(1, 6) : 64;
  engine.sequences_max = tight_ ? pick(4, 24) : log_pick(1, 24);
  engine.tenant_requests_max = one_in(4) ? pick(1, 6) : 0;
  if (one_in(2)) engine.step = milliseconds(log_pick(1, 100));
  engine.prefill_chunk_max = pick(1, 96);
  engine.prefix_cache = !one_in(4);
  if (one_in(2)) engine.speculation = {pick(1, 6), pick(2, 5)};
  make_layout();
  // Half of the caches have a second tier, chosen by a random number of its own.
  const auto slots = static_cast<int64_t>(sampling::mix_bits(seed_) % 80);
  if (engine.prefix_cache && slots <= 40) engine.kv_host_bytes = slots * host_slot_bytes(model.layout);
  if (one_in(10)) options.failing_steps = log_uniform(0.002, 0.1);
  if (one_in(25)) options.stops_after_turn = pick(1, 100);
}

void Generator::make_arrivals() {
  gap_ns_ = one_in(4) || tight_ ? 0 : log_uniform(1e6, 5e8);
  burst_ = pick(0, 3) * 0.25;
  clients_ = pick(1, 3);
}

// Few different beginnings, so that much is shared; some prompts continue an earlier request and its answer.
std::vector<TokenId> Generator::prompt() {
  const int32_t context = trace_.options.model.context_tokens;
  std::vector<TokenId> prompt;
  if (!trace_.planned.empty() && one_in(3)) {
    const engine::GenerateRequest& before =
        trace_.planned[static_cast<size_t>(pick(0, static_cast<int32_t>(trace_.planned.size()) - 1))].request;
    const int32_t answer_max = std::min(40, context - static_cast<int32_t>(before.prompt.size()));
    prompt = before.prompt;
    const engine::Answer answer =
        plain_answer(tokenizer_, before, static_cast<int32_t>(prompt.size()) + pick(0, answer_max));
    prompt.insert(prompt.end(), answer.tokens.begin(), answer.tokens.end());
  } else if (!one_in(3)) {
    prompt = random_prompt(log_pick(1, context / 2), static_cast<uint64_t>(pick(0, 3)));
  }
  const std::vector<TokenId> own = random_prompt(one_in(5) ? log_pick(1, context / 2) : pick(0, 24), random_());
  prompt.insert(prompt.end(), own.begin(), own.end());
  if (one_in(6)) prompt.insert(prompt.end(), prompt.begin(), prompt.end());
  prompt.resize(std::clamp<size_t>(prompt.size(), 1, static_cast<size_t>(context - 1)), TokenId{9});
  return prompt;
}

Planned Generator::planned() {
  Planned planned;
  engine::GenerateRequest& request = planned.request;
  request.prompt = prompt();
  request.max_tokens = one_in(8) || tight_ ? log_pick(1, 200) : log_pick(1, 40);
  request.ignore_eos = one_in(2);
  if (one_in(40)) request.max_tokens = -1;
  if (long_answers_ && one_in(2)) {
    request.max_tokens = pick(260, 1'400);
    request.ignore_eos = true;
  }
  request.sampling.temperature = one_in(2) ? 0.0f : 0.8f;
  request.sampling.seed = random_();
  if (one_in(4)) request.sampling.repetition_penalty = 1.3f;
  if (one_in(5)) request.stop = {std::string(static_cast<size_t>(pick(1, 2)), static_cast<char>(pick(2, 9)))};
  request.salt = static_cast<uint64_t>(one_in(4) ? pick(1, 2) : 0);
  request.tenant = std::string(1, static_cast<char>('a' + pick(0, 2)));
  request.client = std::string(1, static_cast<char>('x' + pick(0, clients_ - 1)));
  request.priority = one_in(3) ? engine::Priority::kBatch : engine::Priority::kInteractive;
  if (one_in(3)) request.target_ttft = milliseconds(log_pick(1, 60'000));
  if (one_in(3)) request.target_tbt = milliseconds(log_pick(1, 200));
  request.speculate = !one_in(5);
  set_client(planned.client);
  if (std::uniform_real_distribution<double>()(random_) >= burst_) {
    now_ +=
        nanoseconds(static_cast<int64_t>(-gap_ns_ * std::log(1 - std::uniform_real_distribution<double>()(random_))));
  }
  planned.arrival = now_;
  return planned;
}

void Generator::set_client(Client& client) {
  if (one_in(5)) {
    client.cancels_in = tight_ && one_in(2) ? Phase::kPreempted : static_cast<Phase>(pick(0, 4));
    const bool in_batch = client.cancels_in != Phase::kQueue && client.cancels_in != Phase::kPreempted;
    client.cancels_at = in_batch ? log_pick(1, 20) : pick(1, 3);
    client.within_step = in_batch && one_in(2);
    client.leaves = one_in(3);
  }
  if (one_in(5)) client.takes_every = pick(2, 30);
  if (one_in(long_answers_ ? 2 : 8)) client.silence = milliseconds(log_pick(1, 40'000));
}

}  // namespace

std::vector<TokenId> random_prompt(int32_t tokens, uint64_t seed) {
  std::vector<TokenId> prompt(static_cast<size_t>(tokens));
  for (size_t i = 0; i < prompt.size(); ++i) {
    prompt[i] = TokenId{3 + static_cast<int32_t>(sampling::mix_bits(sampling::mix_bits(seed) + i) % (kVocabulary - 3))};
  }
  return prompt;
}

engine::GenerateRequest request_of(std::vector<TokenId> prompt, int32_t max_tokens, engine::Priority priority) {
  engine::GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  request.priority = priority;
  return request;
}

Trace random_trace(const tokenizer::Tokenizer& tokenizer, uint64_t seed) { return Generator(tokenizer, seed).trace(); }

}  // namespace cairn::sim
