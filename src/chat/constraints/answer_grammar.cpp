#include "chat/constraints/answer_grammar.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace cairn::chat {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

Error unfit(std::string_view what) {
  return Error{Code::kInternal, "the model's answer left its grammar with " + std::string(what), {}};
}

void set(std::span<uint64_t> mask, TokenId token) {
  const auto at = static_cast<size_t>(index(token));
  mask[at / 64] |= uint64_t{1} << (at % 64);
}

}  // namespace

AnswerVocabulary::AnswerVocabulary(const tokenizer::Tokenizer& made_from) : tokenizer(made_from), masks(made_from) {
  for (size_t i = 0; i < masks.tokens(); ++i) {
    const TokenId token{static_cast<int32_t>(i)};
    const std::string_view piece = masks.piece(token);
    if (!piece.empty() && piece.size() <= kAnswerSpaceBytesMax &&
        piece.find_first_not_of(kSpace) == std::string_view::npos)
      spaces.push_back(token);
    if (tokenizer.is_control(token)) controls.try_emplace(std::string(tokenizer.piece(token, true)), token);
  }
  controls.erase("");
}

std::string AnswerVocabulary::spell(std::string_view text, bool opens) const {
  std::string spelled;
  while (!text.empty()) {
    // The longest one that the text begins with.
    size_t bytes = text.size();
    auto found = controls.end();
    for (; bytes > 0 && found == controls.end(); --bytes) found = controls.find(text.substr(0, bytes));
    if (found == controls.end()) {
      spelled += text.front();
      text.remove_prefix(1);
      continue;
    }
    text.remove_prefix(found->first.size());
    if (!masks.ends_generation(found->second)) {
      spelled += grammar::control_token_bytes(found->second);
    } else if (opens) {
      spelled.clear();
    } else {
      break;
    }
  }
  return spelled;
}

TokenId only_token(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  const auto tokens = tokenizer.encode(text, {.add_special = false, .parse_special = true});
  return tokens && tokens->size() == 1 ? tokens->front() : kNoToken;
}

TokenId thinking_opener(const tokenizer::Tokenizer& tokenizer, ReasoningFormat format, std::string_view prompt) {
  const ReasoningStyle* style = find_style(format);
  if (style == nullptr || style->open.empty() || prompt_end(*style, prompt) != PromptEnd::kElsewhere) return kNoToken;
  return only_token(tokenizer, style->open);
}

AnswerGrammar::AnswerGrammar(AnswerGrammarRules rules)
    : rules_(std::move(rules)),
      matcher_(rules_.grammar),
      expected_(rules_.vocabulary->tokenizer),
      mask_(rules_.vocabulary->masks.words()) {
  matcher_.push(rules_.begun);
}

void AnswerGrammar::start(bool space, engine::NextTokenRule& next) {
  started_ = true;
  space_left_ = space ? kAnswerSpaceBytesMax : 0;
  if (space) rules_.thinking_open = kNoToken;
  allow_next(kNoToken, rules_.begun, next);
}

void AnswerGrammar::pause(engine::NextTokenRule& next) {
  started_ = false;
  next.allowed = {};
  next.expected = {};
}

void AnswerGrammar::give_way(engine::NextTokenRule& next) {
  complete_ = true;
  next.allowed = {};
  next.expected = {};
}

bool AnswerGrammar::takes_space(std::string_view text) {
  if (matcher_.position() > 0 || text.size() > space_left_) return false;
  if (text.find_first_not_of(kSpace) != std::string_view::npos) return false;
  space_left_ -= text.size();
  return true;
}

void AnswerGrammar::token(TokenId token, engine::NextTokenRule& next) {
  if (complete_) return;
  const std::string_view text = rules_.vocabulary->masks.piece(token);
  if (!takes_space(text) && !rules_.vocabulary->masks.push(matcher_, token))
    next.error = matcher_.failure().value_or(unfit("a token that was forced on it"));
  if (!next.error) allow_next(token, text, next);
}

bool AnswerGrammar::takes_quickly(TokenId token) const {
  if (complete_ || opens_thinking(token) || opens_call(token)) return true;
  return matcher_.position() > 0 && rules_.vocabulary->masks.knows(matcher_, token);
}

void AnswerGrammar::text(std::string_view text, engine::NextTokenRule& next) {
  if (!takes_space(text) && matcher_.push(text) < text.size())
    next.error = matcher_.failure().value_or(unfit("text in one token with the end of its thinking"));
  if (!next.error) allow_next(kNoToken, text, next);
}

void AnswerGrammar::allow_next(TokenId token, std::string_view text, engine::NextTokenRule& next) {
  next.expected = {};
  if (!matcher_.failure() && matcher_.may_end() && matcher_.next_bytes().empty()) {
    next.allowed = {};
    next.end = engine::FinishReason::kStop;
    complete_ = true;
    return;
  }
  rules_.vocabulary->masks.compute(matcher_, mask_);
  if (matcher_.failure()) {
    next.error = *matcher_.failure();
    return;
  }
  if (matcher_.position() == 0) {
    for (const TokenId open : {rules_.thinking_open, rules_.call_open})
      if (open != kNoToken) set(mask_, open);
    for (const TokenId space : rules_.vocabulary->spaces)
      if (rules_.vocabulary->masks.piece(space).size() <= space_left_) set(mask_, space);
  }
  next.allowed = mask_;
  next.expected = expected_.after(token, text, matcher_);
}

}  // namespace cairn::chat
