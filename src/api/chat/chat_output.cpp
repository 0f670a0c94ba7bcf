#include "api/chat/chat_output.h"

#include <algorithm>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/system/random_id.h"
#include "chat/tool_calls/format.h"

namespace cairn::api {

struct ChatOutput::Choice {
  OutputParser parser;
  ChatTurn turn;
  std::vector<TokenId> tokens;
  int32_t reasoning_tokens = 0;
  size_t thinking_end = 0;  // see TurnRecorder
  bool broken = false;      // a call is
  bool cut = false;         // the last call is
  size_t prefill_held = 0;  // bytes of the prefill that the parser still holds back
};

std::string call_id_of(uint64_t number, int bytes) {
  static constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr int kLettersOfLongId = 24;
  std::mt19937_64 random{number};
  std::string id = bytes > 0 ? "" : "call_";
  for (int i = 0; i < (bytes > 0 ? bytes : kLettersOfLongId); ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

std::string make_call_id(int bytes) { return call_id_of(secure_random(), bytes); }

OutputParser OutputContext::parser() const { return OutputParser(format, tools, prompt, offered); }

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

}  // namespace

ChatOutput::ChatOutput(std::unique_ptr<ChatSerializer> serializer, const OutputContext& context, int choices,
                       TurnRecorder keep, StoreRunner store_runner)
    : serializer_(std::move(serializer)),
      model_(context.model),
      prefill_(context.prefill),
      forced_prefix_(context.forced_prefix),
      template_stop_strings_(context.template_stop_strings),
      recorder_(std::move(keep)),
      store_runner_(std::move(store_runner)) {
  const auto* style = tool_call::find_style(context.format.tools);
  id_bytes_ = style == nullptr ? 0 : style->id_bytes;
  choices_.reserve(static_cast<size_t>(choices));
  for (int i = 0; i < choices; ++i) choices_.push_back({.parser = context.parser(), .turn = {}, .tokens = {}});
}

ChatOutput::~ChatOutput() = default;

std::string ChatOutput::begin() {
  std::string bytes = serializer_->begin();
  if (prefill_.empty() && forced_prefix_.empty()) return bytes;
  for (size_t i = 0; i < choices_.size(); ++i) {
    parts_.clear();
    if (!prefill_.empty()) skip_prefill(choices_[i]);
    choices_[i].parser.feed(forced_prefix_, parts_);
    if (!forced_prefix_.empty()) choices_[i].parser.expect_call();
    collect(choices_[i]);
    if (!parts_.empty()) bytes += serializer_->parts(static_cast<int>(i), parts_, nullptr);
  }
  return bytes;
}

// A prefill may begin a call, which is sent; its text, and what may yet turn out to be text, is not.
void ChatOutput::skip_prefill(Choice& choice) {
  choice.parser.feed(prefill_, parts_);
  const auto is_text = [](const Part& part) { return part.kind <= PartKind::kReasoning; };
  size_t told = 0;
  for (const Part& part : parts_) told += part.text.size();
  const bool all_text = std::ranges::all_of(parts_, is_text);
  choice.prefill_held = all_text && told < prefill_.size() ? prefill_.size() - told : 0;
  std::erase_if(parts_, is_text);
}

// Adds the parts to the turn, and ids to those that begin a call.
void ChatOutput::collect(Choice& choice) {
  for (Part& part : parts_) {
    const size_t held = std::exchange(choice.prefill_held, 0);
    if (held > 0 && part.kind == PartKind::kContent) {
      const size_t cut = std::min(held, part.text.size());
      part.text.erase(0, cut);
      choice.prefill_held = held - cut;
    }
    switch (part.kind) {
      case PartKind::kContent:
        choice.turn.content += part.text;
        break;
      case PartKind::kReasoning:
        choice.turn.reasoning += part.text;
        break;
      case PartKind::kCallBegin:
        if (part.id.empty()) part.id = make_call_id(id_bytes_);
        choice.turn.calls.push_back({part.id, part.text, {}});
        break;
      case PartKind::kArguments:
        choice.turn.calls.back().arguments += part.text;
        break;
      case PartKind::kCallEnd:
        choice.broken |= part.state == CallState::kBroken;
        choice.cut = part.state == CallState::kCut;
        break;
    }
  }
}

std::string ChatOutput::token(int index, TokenEvent&& event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  choice.tokens.push_back(event.token);
  const bool thought = choice.parser.in_reasoning();
  choice.reasoning_tokens += thought ? 1 : 0;
  parts_.clear();
  choice.parser.feed(event.text, parts_);
  collect(choice);
  if (thought && !choice.parser.in_reasoning()) {
    const bool answers =
        std::ranges::any_of(parts_, [](const Part& part) { return part.kind != PartKind::kReasoning; });
    choice.thinking_end = answers ? kNoThinkingEnd : choice.tokens.size();
  }
  return serializer_->parts(index, parts_, &event);
}

std::string ChatOutput::finish(int index, Finish&& finish) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  parts_.clear();
  choice.parser.feed(finish.text, parts_);
  choice.parser.finish(parts_);
  collect(choice);
  log_dress(model_, choice.parser.dress());
  std::string bytes;
  if (!parts_.empty()) bytes = serializer_->parts(index, parts_, nullptr);

  ChatFinish chat;
  chat.usage = finish.usage;
  chat.timings = finish.timings;
  chat.reasoning_tokens = choice.reasoning_tokens;
  if (std::ranges::find(template_stop_strings_, finish.stop) == template_stop_strings_.end())
    chat.stop = std::move(finish.stop);
  if (finish.reason == FinishReason::kLength) {
    chat.reason = ChatFinishReason::kLength;
  } else if (finish.reason == FinishReason::kRepetition) {
    chat.reason = ChatFinishReason::kRepetition;
  } else if (finish.reason == FinishReason::kCancelled) {
    chat.reason = ChatFinishReason::kCancelled;
  } else if (choice.cut) {
    chat.reason = ChatFinishReason::kCutCall;
  } else if (!chat.stop.empty()) {
    chat.reason = ChatFinishReason::kStopString;
  } else {
    const bool calls = !choice.turn.calls.empty() && !choice.broken;
    chat.reason = calls ? ChatFinishReason::kToolCalls : ChatFinishReason::kStop;
    if (recorder_ && !choice.broken) {
      if (auto work = recorder_(choice.turn, choice.tokens, choice.thinking_end)) to_store_.push_back(std::move(work));
    }
  }
  chat.turn = std::move(choice.turn);
  return bytes + serializer_->finish(index, std::move(chat));
}

bool ChatOutput::settle(const Error* error, std::function<void()> ready) {
  if (auto work = serializer_->settle(error)) to_store_.push_back(std::move(work));
  if (to_store_.empty()) return false;
  auto store = [works = std::exchange(to_store_, {})] {
    for (const auto& work : works) {
      try {
        work();
      } catch (...) {
        log_error("an answer was not stored: {}", thrown_error().text());
      }
    }
  };
  if (!store_runner_) {
    store();
    return false;
  }
  store_runner_([store = std::move(store), ready = std::move(ready)] {
    store();
    ready();
  });
  return true;
}

}  // namespace cairn::api
