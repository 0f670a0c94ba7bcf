#include "chat/constraints/held_calls.h"

#include <algorithm>

#include "base/error.h"

namespace cairn::chat {
namespace {

constexpr std::string_view kSpaceBetweenCalls = " \t\r\n";

// Nothing can follow.
bool is_complete(const grammar::Matcher& matcher) {
  return !matcher.failure() && matcher.may_end() && matcher.next_bytes().empty();
}

}  // namespace

HeldCalls::HeldCalls(HeldCallsRules rules, const tokenizer::Tokenizer& tokenizer)
    : rules_(std::move(rules)),
      tokenizer_(tokenizer),
      expected_(tokenizer),
      mask_(rules_.vocabulary->masks.words()),
      tail_(rules_.before) {}

bool HeldCalls::open(std::string_view spelled, std::string_view rest, State state) {
  grammar::Matcher matcher(rules_.grammar);
  if (matcher.push(spelled) < spelled.size() || matcher.push(rest) < rest.size()) return false;
  matcher_.emplace(std::move(matcher));
  completed_ = is_complete(*matcher_);
  state_ = completed_ ? State::kFree : state;
  return true;
}

void HeldCalls::begin(engine::NextTokenRule& next) {
  if (!rules_.begun.empty() && !open(rules_.begun, {}, rules_.begun_certain ? State::kHeld : State::kTentative))
    next.error = Error{Code::kInternal, "what was forced on the model begins no call of its grammar", {}};
  if (state_ == State::kHeld)
    allow_next(kNoToken, next);
  else
    ban_misfits(next);
}

void HeldCalls::token(TokenId token, bool thought, std::span<const Part> parts, engine::NextTokenRule& next) {
  if (state_ == State::kFree)
    read_free(token, thought);
  else
    read_call(token, next);
  if (state_ == State::kTentative && std::ranges::find(parts, PartKind::kCallBegin, &Part::kind) != parts.end())
    state_ = State::kHeld;
  if (completed_ && rules_.ends_answer) next.end = engine::FinishReason::kStop;
  if (state_ == State::kHeld && !next.error)
    allow_next(token, next);
  else if (state_ == State::kFree && !thought)
    ban_misfits(next);
}

bool HeldCalls::takes_quickly(TokenId token) const {
  if (rules_.vocabulary->masks.ends_generation(token)) return true;
  if (state_ != State::kFree) return rules_.vocabulary->masks.knows(*matcher_, token);
  const std::string_view piece = tokenizer_.piece(token, true);
  if (at_start_ && !rules_.bare.empty() && piece.contains(rules_.bare)) return false;
  const std::string text = tail_ + std::string(piece);
  for (size_t i = 0; i < rules_.starts.size(); ++i) {
    const HeldCallsRules::BlockStart& start = rules_.starts[i];
    if (text.contains(start.text)) return false;
    for (size_t written = 0; start.certain && written < start.text.size(); ++written) {
      const bool needed = written == 0 || text.ends_with(std::string_view(start.text).substr(0, written));
      if (needed && !misfits_.contains({i, written})) return false;
    }
  }
  return true;
}

void HeldCalls::read_free(TokenId token, bool thought) {
  const std::string_view piece = tokenizer_.piece(token, true);
  const size_t before = tail_.size();
  tail_ += piece;
  if (thought) at_start_ = true;
  const bool begins = std::exchange(
      at_start_, thought || (at_start_ && piece.find_first_not_of(kSpaceBetweenCalls) == std::string_view::npos));
  for (const HeldCallsRules::BlockStart& start : rules_.starts) {
    const size_t from = before - std::min(before, start.text.size() - 1);
    const size_t at = tail_.find(start.text, from);
    if (at == std::string::npos) continue;
    // Who thinks aloud about calling something may write the start without meaning it.
    const State state = start.certain && !thought ? State::kHeld : State::kTentative;
    if (!open(start.spelled, std::string_view(tail_).substr(at + start.text.size()), state)) continue;
    tail_.clear();
    return;
  }
  if (begins && !at_start_ && !rules_.bare.empty()) {
    const std::string_view text = piece.substr(piece.find_first_not_of(kSpaceBetweenCalls));
    if (text.starts_with(rules_.bare) && open({}, text, State::kTentative)) {
      tail_.clear();
      return;
    }
  }
  if (rules_.completing != nullptr && tail_.size() > rules_.completing->tail_bytes())
    tail_.erase(0, tail_.size() - rules_.completing->tail_bytes());
}

void HeldCalls::read_call(TokenId token, engine::NextTokenRule& next) {
  if (rules_.vocabulary->masks.ends_generation(token)) return;
  const bool fits = rules_.vocabulary->masks.push(*matcher_, token);
  if (!fits && state_ == State::kHeld) {
    next.error = Error{Code::kInternal, "the model's call left its grammar with a token that was forced on it", {}};
    return;
  }
  if (fits && !is_complete(*matcher_)) return;
  state_ = State::kFree;
  completed_ = fits;
  next.allowed = {};
  next.expected = {};
  at_start_ = fits;
  tail_.clear();
}

void HeldCalls::allow_next(TokenId token, engine::NextTokenRule& next) {
  next.expected = {};
  rules_.vocabulary->masks.compute(*matcher_, mask_);
  if (matcher_->failure()) {
    next.error = *matcher_->failure();
    return;
  }
  next.allowed = mask_;
  const std::string_view text = token == kNoToken ? rules_.begun : rules_.vocabulary->masks.piece(token);
  next.expected = expected_.after(token, text, *matcher_);
}

const std::vector<TokenId>& HeldCalls::misfits(size_t start, size_t written) {
  const auto [found, made] = misfits_.try_emplace({start, written});
  if (!made) return found->second;
  const HeldCallsRules::BlockStart& one = rules_.starts[start];
  grammar::Matcher matcher(rules_.grammar);
  if (matcher.push(one.spelled) < one.spelled.size()) return found->second;
  const size_t begin = matcher.position();
  for (const TokenId token : rules_.completing->completing(start, written)) {
    const std::string_view piece = tokenizer_.piece(token, true);
    const size_t at = written == 0 ? piece.find(one.text) + one.text.size() : one.text.size() - written;
    const std::string_view rest = piece.substr(at);
    if (matcher.push(rest) < rest.size()) found->second.push_back(token);
    matcher.rewind(begin);
  }
  return found->second;
}

void HeldCalls::ban_misfits(engine::NextTokenRule& next) {
  for (size_t i = 0; i < rules_.starts.size(); ++i) {
    const HeldCallsRules::BlockStart& start = rules_.starts[i];
    if (!start.certain) continue;
    for (size_t written = 0; written < start.text.size(); ++written) {
      if (written > 0 && !tail_.ends_with(std::string_view(start.text).substr(0, written))) continue;
      const std::vector<TokenId>& tokens = misfits(i, written);
      next.banned.insert(next.banned.end(), tokens.begin(), tokens.end());
    }
  }
}

}  // namespace cairn::chat
