#include "chat/answer/reader.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "base/log.h"
#include "chat/answer/call_id.h"
#include "chat/tool_calls/format.h"
#include "tokenizer/tokenizer.h"

namespace cairn::chat {
namespace {

// Once per model.
void log_dress(const std::string& model, std::string_view dress) {
  static std::mutex mutex;
  static std::set<std::string> logged;
  const std::lock_guard lock(mutex);
  if (!dress.empty() && logged.insert(model).second)
    log_info("{}: calls that are not in the model's own format are read ({}); --tool-calls strict leaves them text",
             model, dress);
}

int id_bytes_of(const OutputFormat& format) {
  const auto* style = tool_call::find_style(format.tools);
  return style == nullptr ? 0 : style->id_bytes;
}

}  // namespace

OutputParser OutputContext::parser() const { return OutputParser(format, tools, prompt, offered); }

AnswerReader::AnswerReader(const OutputContext& context)
    : model_(context.model),
      prefill_(context.prefill),
      forced_prefix_(context.forced_prefix),
      forced_tokens_(context.forced_tokens),
      template_stop_strings_(context.template_stop_strings),
      id_bytes_(id_bytes_of(context.format)),
      parser_(context.parser()) {}

std::span<const Part> AnswerReader::begin() {
  parts_.clear();
  if (!prefill_.empty()) skip_prefill();
  parser_.feed(forced_prefix_, parts_);
  if (!forced_prefix_.empty()) parser_.expect_call();
  collect();
  return parts_;
}

// A prefill may begin a call, which is sent; its text, and what may yet turn out to be text, is not.
void AnswerReader::skip_prefill() {
  parser_.feed(prefill_, parts_);
  const auto is_text = [](const Part& part) { return part.kind <= PartKind::kReasoning; };
  size_t told = 0;
  for (const Part& part : parts_) told += part.text.size();
  const bool all_text = std::ranges::all_of(parts_, is_text);
  prefill_held_ = all_text && told < prefill_.size() ? prefill_.size() - told : 0;
  std::erase_if(parts_, is_text);
}

void AnswerReader::collect() {
  for (Part& part : parts_) {
    const size_t held = std::exchange(prefill_held_, 0);
    if (held > 0 && part.kind == PartKind::kContent) {
      const size_t cut = std::min(held, part.text.size());
      part.text.erase(0, cut);
      prefill_held_ = held - cut;
    }
    switch (part.kind) {
      case PartKind::kContent:
        turn_.content += part.text;
        break;
      case PartKind::kReasoning:
        turn_.reasoning += part.text;
        break;
      case PartKind::kCallBegin:
        if (part.id.empty()) part.id = make_call_id(id_bytes_);
        turn_.calls.push_back({part.id, part.text, {}});
        break;
      case PartKind::kArguments:
        turn_.calls.back().arguments += part.text;
        break;
      case PartKind::kCallEnd:
        broken_ |= part.state == CallState::kBroken;
        cut_ = part.state == CallState::kCut;
        break;
    }
  }
}

std::span<const Part> AnswerReader::token(const engine::TokenEvent& event) {
  tokens_.push_back(event.token);
  thought_ = parser_.in_reasoning();
  reasoning_tokens_ += thought_ ? 1 : 0;
  parts_.clear();
  parser_.feed(event.text, parts_);
  collect();
  if (thought_ && !parser_.in_reasoning()) {
    const bool answers =
        std::ranges::any_of(parts_, [](const Part& part) { return part.kind != PartKind::kReasoning; });
    thinking_end_ = answers ? kNoThinkingEnd : tokens_.size();
  }
  return parts_;
}

std::span<const Part> AnswerReader::finish(const engine::Finish& finish) {
  parts_.clear();
  parser_.feed(finish.text, parts_);
  parser_.finish(parts_);
  collect();
  log_dress(model_, parser_.dress());
  return parts_;
}

ChatFinish AnswerReader::result(engine::Finish&& finish) {
  ChatFinish chat;
  chat.usage = finish.usage;
  chat.timings = finish.timings;
  chat.context_full = finish.context_full;
  chat.reasoning_tokens = reasoning_tokens_;
  if (std::ranges::find(template_stop_strings_, finish.stop) == template_stop_strings_.end())
    chat.stop = std::move(finish.stop);
  if (finish.reason == engine::FinishReason::kLength) {
    chat.reason = ChatFinishReason::kLength;
  } else if (finish.reason == engine::FinishReason::kRepetition) {
    chat.reason = ChatFinishReason::kRepetition;
  } else if (finish.reason == engine::FinishReason::kCancelled) {
    chat.reason = ChatFinishReason::kCancelled;
  } else if (cut_) {
    chat.reason = ChatFinishReason::kCutCall;
  } else if (!chat.stop.empty()) {
    chat.reason = ChatFinishReason::kStopString;
  } else {
    const bool calls = !turn_.calls.empty() && !broken_;
    chat.reason = calls ? ChatFinishReason::kToolCalls : ChatFinishReason::kStop;
  }
  chat.turn = std::move(turn_);
  return chat;
}

bool AnswerReader::ended_by_itself(const ChatFinish& finish) const {
  return !broken_ && (finish.reason == ChatFinishReason::kStop || finish.reason == ChatFinishReason::kToolCalls);
}

SampledTurn AnswerReader::sampled_turn(const ChatTurn& turn, const tokenizer::Tokenizer& tokenizer) const {
  const bool thought = thinking_end_ != kNoThinkingEnd && thinking_end_ > 0;
  const auto is_space = [&](TokenId id) {
    return tokenizer.piece(id, true).find_first_not_of(" \t\r\n") == std::string_view::npos;
  };
  size_t answer = thinking_end_;
  // Space that parts thinking and answer belongs to the template.
  while (thought && answer < tokens_.size() && is_space(tokens_[answer])) ++answer;
  SampledTurn sampled{turn, forced_tokens_, thought ? forced_tokens_.size() + answer : answer};
  sampled.tokens.insert(sampled.tokens.end(), tokens_.begin(), tokens_.end());
  return sampled;
}

}  // namespace cairn::chat
