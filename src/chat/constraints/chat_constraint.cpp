#include "chat/constraints/chat_constraint.h"

#include <algorithm>
#include <utility>

namespace cairn::chat {
namespace {

// How often the thinking is closed. A model may begin to think again; after this many times it is left alone.
constexpr int kClosesMax = 4;

std::vector<TokenId> close_tokens(const OutputParser& parser, const tokenizer::Tokenizer& tokenizer, TokenId after) {
  const std::string text = parser.reasoning_close();
  if (text.empty()) return {};
  auto tokens = tokenizer.encode(text, {.add_special = false, .parse_special = true, .after = after});
  return tokens ? std::move(*tokens) : std::vector<TokenId>();
}

}  // namespace

ChatConstraint::ChatConstraint(ChatConstraintRules rules, OutputParser parser, const tokenizer::Tokenizer& tokenizer,
                               TokenId last)
    : rules_(std::move(rules)), parser_(std::move(parser)), tokenizer_(tokenizer), last_(last) {
  if (rules_.grammar) grammar_.emplace(*rules_.grammar);
  if (rules_.calls) calls_.emplace(*rules_.calls, tokenizer);
}

void ChatConstraint::close_thinking(engine::NextTokenRule& next) {
  if (closed_ == kClosesMax || !next.forced.empty()) return;
  ++closed_;
  next.forced = close_tokens(parser_, tokenizer_, last_);
}

void ChatConstraint::ban(TokenId token, engine::NextTokenRule& next) {
  next.banned.clear();
  if (rules_.ban == nullptr) return;
  if (token != kNoToken) tail_ += tokenizer_.piece(token, true);
  tail_.erase(0, tail_.size() - std::min(tail_.size(), rules_.ban->tail_bytes()));
  rules_.ban->next(tail_, next.banned);
}

// Called after the parser has read the token's text.
void ChatConstraint::follow_grammar(TokenId token, engine::NextTokenRule& next) {
  if (grammar_->started()) {
    if (grammar_->opens_thinking(token)) return grammar_->pause(next);
    if (grammar_->opens_call(token)) return grammar_->give_way(next);
    return grammar_->token(token, next);
  }
  if (parser_.in_reasoning()) return;
  grammar_->start(/*space=*/true, next);
  for (const Part& part : parts_)
    if (part.kind == PartKind::kContent && !part.text.empty()) grammar_->text(part.text, next);
}

void ChatConstraint::begin(engine::NextTokenRule& next) {
  ban(kNoToken, next);
  next.greedy = parser_.in_syntax();
  const bool quick = (!grammar_ || parser_.in_reasoning() || grammar_->starts_quickly()) && !calls_;
  if (quick) return finish(next);
  next.unfinished = true;
}

// Whether what the last token means for the grammars is only looked up.
bool ChatConstraint::is_quick() const {
  const bool quick = !grammar_ || (grammar_->started() ? grammar_->takes_quickly(last_) : parser_.in_reasoning());
  return quick && (!calls_ || (grammar_ && grammar_->holding()) || calls_->takes_quickly(last_));
}

void ChatConstraint::token(TokenId token, std::string_view text, engine::NextTokenRule& next) {
  last_ = token;
  ban(token, next);
  thought_ = parser_.in_reasoning();
  reasoning_tokens_ += thought_ ? 1 : 0;
  parts_.clear();
  parser_.feed(text, parts_);
  next.greedy = parser_.in_syntax();
  const auto ends_call = [](const Part& part) { return part.kind == PartKind::kCallEnd; };
  if (rules_.one_call && (parser_.holds_calls() || std::ranges::any_of(parts_, ends_call)))
    next.end = engine::FinishReason::kStop;
  if (is_quick()) return finish(next);
  next.unfinished = true;
}

void ChatConstraint::finish(engine::NextTokenRule& next) {
  next.unfinished = false;
  if (!std::exchange(begun_, true)) {
    if (grammar_ && !parser_.in_reasoning()) grammar_->start(/*space=*/false, next);
    if (calls_ && !(grammar_ && grammar_->holding())) calls_->begin(next);
    if (rules_.reasoning_tokens_max == 0 && parser_.in_reasoning()) close_thinking(next);
    return;
  }
  if (grammar_) follow_grammar(last_, next);
  if (calls_ && !(grammar_ && grammar_->holding())) calls_->token(last_, thought_, parts_, next);
  const int32_t circling = repetition_.push(last_);
  if (parser_.in_reasoning()) {
    const bool spent = rules_.reasoning_tokens_max >= 0 && reasoning_tokens_ >= rules_.reasoning_tokens_max;
    if (spent || circling >= kThinkingCycleTokens) close_thinking(next);
  }
  if (rules_.stops_on_loop && circling >= kAnswerCycleTokens) next.end = engine::FinishReason::kRepetition;
}

}  // namespace cairn::chat
