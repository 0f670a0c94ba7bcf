#include "grammar/matcher.h"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/grammar_tables.h"
#include "grammar/matcher_state.h"

namespace cairn::grammar {
namespace {

constexpr size_t kAutomatonBytes = size_t{16} << 20;      // after which the answer is read again, by a new one
constexpr size_t kAutomatonBytesMax = size_t{512} << 20;  // that one answer may need
constexpr size_t kIdleAutomata = 4;                       // that a grammar keeps
std::atomic<size_t> idle_bytes = 0;                       // of all grammars
constexpr size_t kReadAgainBytes = 32;  // of an answer for a byte more of it, as long as that keeps memory bounded

}  // namespace

Matcher::State::State(std::shared_ptr<const Grammar> of) : grammar(std::move(of)) {
  {
    const std::lock_guard lock(grammar->mutex);
    if (!grammar->idle.empty()) {
      automaton = grammar->idle.back().take();
      grammar->idle.pop_back();
    }
  }
  if (automaton == nullptr) automaton = std::make_unique<Automaton>(*grammar);
  rows.push_back(automaton->start());
  budget = kAutomatonBytes;
}

Matcher::State::~State() {
  if (automaton->bytes_used() > kAutomatonBytes || automaton->regexes().full()) return;
  const std::lock_guard lock(grammar->mutex);
  if (grammar->idle.size() >= kIdleAutomata) return;
  if (auto idle = IdleAutomaton::keep(std::move(automaton))) grammar->idle.push_back(*std::move(idle));
}

std::optional<IdleAutomaton> IdleAutomaton::keep(std::unique_ptr<Automaton> automaton) {
  const size_t bytes = automaton->bytes_used();
  if (idle_bytes.fetch_add(bytes) + bytes <= kIdleBytesMax) return IdleAutomaton(std::move(automaton), bytes);
  idle_bytes -= bytes;
  return std::nullopt;
}

IdleAutomaton::IdleAutomaton(std::unique_ptr<Automaton> automaton, size_t bytes)
    : automaton_(std::move(automaton)), bytes_(bytes) {}
IdleAutomaton::IdleAutomaton(IdleAutomaton&& other) noexcept
    : automaton_(std::move(other.automaton_)), bytes_(std::exchange(other.bytes_, 0)) {}
IdleAutomaton::~IdleAutomaton() { idle_bytes -= bytes_; }
std::unique_ptr<Automaton> IdleAutomaton::take() { return std::move(automaton_); }

// Forgets what was found out beside the answer, when it is too much to keep.
void Matcher::State::collect() {
  if (successor == nullptr) {
    if (automaton->bytes_used() <= budget) return;
    successor = std::make_unique<Automaton>(*grammar);
    successor_rows.assign(1, successor->start());
  }
  read_again();
  if (successor == nullptr || successor_rows.size() < rows.size()) return;
  automaton = std::move(successor);
  rows = std::move(successor_rows);
  budget = std::max(kAutomatonBytes, automaton->bytes_used() * 2);
  if (budget > kAutomatonBytesMax) {
    failure =
        Error{Code::kTooLarge, fmt::format("an answer's grammar needs more than {} bytes", kAutomatonBytesMax / 2), {}};
  }
}

void Matcher::State::read_again() {
  const size_t most = automaton->bytes_used() > 2 * budget ? rows.size() : kReadAgainBytes;
  for (size_t i = 0; i < most && successor_rows.size() < rows.size(); ++i) {
    const RowId next = successor->step(successor_rows.back(), static_cast<uint8_t>(taken[successor_rows.size() - 1]));
    if (next >= kTooLargeRow) {  // what took so much was known before
      successor.reset();
      return fail_at_limit();
    }
    successor_rows.push_back(next);
  }
}

bool Matcher::State::count_work(uint64_t work) {
  if (work <= kLargeMaskWork) return true;
  large_work += work;
  if (large_work <= kAnswerWorkMax) return true;
  failure = Error{Code::kTooLarge,
                  fmt::format("the answer's grammar takes more than {} steps to tell what may follow, over the whole "
                              "answer; give it fewer conditions on the same text, or lower counts",
                              kAnswerWorkMax),
                  {}};
  return false;
}

void Matcher::State::fail_at_limit() {
  failure =
      Error{Code::kTooLarge,
            fmt::format("the grammar is too ambiguous or too deep: what may follow takes more than {} steps, or {} "
                        "rules that are open at once, or {} within each other",
                        kMaskWorkMax, kKernelItemsMax, kRowDepthMax),
            {}};
}

bool Matcher::State::push(uint8_t byte) {
  if (failure.has_value()) return false;
  automaton->begin_work();
  const RowId next = automaton->step(rows.back(), byte);
  if (next == kTooLargeRow || automaton->work() > kMaskWorkMax) {
    fail_at_limit();
    return false;
  }
  if (!count_work(automaton->work())) return false;
  if (next == kNoRow) return false;
  rows.push_back(next);
  taken.push_back(static_cast<char>(byte));
  return true;
}

Matcher::Matcher(std::shared_ptr<const Grammar> grammar) : state_(std::make_unique<State>(std::move(grammar))) {}
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;
Matcher::~Matcher() = default;

bool Matcher::push(uint8_t byte) {
  state_->collect();
  return state_->push(byte);
}

size_t Matcher::push(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!push(static_cast<uint8_t>(bytes[i]))) return i;
  }
  return bytes.size();
}

bool Matcher::may_end() const { return state_->automaton->may_end(state_->rows.back()); }

ByteSet Matcher::next_bytes() const { return state_->automaton->next_bytes(state_->rows.back()); }

std::optional<uint8_t> Matcher::forced() const {
  if (may_end()) return std::nullopt;
  std::optional<uint8_t> only;
  const ByteSet next = next_bytes();
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (!next.contains(static_cast<uint8_t>(byte))) continue;
    if (only.has_value()) return std::nullopt;
    only = static_cast<uint8_t>(byte);
  }
  return only;
}

size_t Matcher::position() const { return state_->taken.size(); }

void Matcher::rewind(size_t position) {
  if (position >= state_->taken.size()) return;
  state_->taken.resize(position);
  state_->rows.resize(position + 1);
  if (state_->successor_rows.size() > position + 1) state_->successor_rows.resize(position + 1);
  state_->failure.reset();
}

const std::optional<Error>& Matcher::failure() const { return state_->failure; }

}  // namespace cairn::grammar
