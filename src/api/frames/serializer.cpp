#include "api/frames/serializer.h"

#include <utility>

#include "api/frames/events.h"
#include "api/telemetry/request_record.h"

namespace cairn::api::frames {
namespace {

std::string_view reason_name(chat::ChatFinishReason end) {
  switch (end) {
    case chat::ChatFinishReason::kStop:
    case chat::ChatFinishReason::kStopString:
      return "stop";
    case chat::ChatFinishReason::kLength:
    case chat::ChatFinishReason::kCutCall:
      return "length";
    case chat::ChatFinishReason::kToolCalls:
      return "tool_calls";
    case chat::ChatFinishReason::kRepetition:
      return "repetition";
    case chat::ChatFinishReason::kCancelled:
      break;
  }
  return "cancelled";
}

}  // namespace

FramesTextSerializer::FramesTextSerializer(std::string id, bool stream)
    : id_(std::move(id)), stream_(stream), token_begin_(token_event_begin(id_)) {}

std::string FramesTextSerializer::token(int, engine::TokenEvent&& event) {
  if (stream_) return token_event(token_begin_, event.token, event.text) + '\n';
  text_ += event.text;
  return {};
}

std::string FramesTextSerializer::finish(int, engine::Finish&& finish) {
  text_ += finish.text;
  std::string event = eos_event(id_, {.reason = finish_name(finish.reason),
                                      .text = text_,
                                      .stop = finish.stop,
                                      .usage = finish.usage,
                                      .timings = finish.timings});
  if (stream_) return std::move(event) + '\n';
  whole_ = std::move(event);
  return {};
}

std::string FramesTextSerializer::failure(const Error& error) { return error_event(id_, error) + '\n'; }

FramesChatSerializer::FramesChatSerializer(const ChatStart& start)
    : id_(start.id), stream_(start.stream), token_begin_(token_event_begin(id_)) {}

std::string FramesChatSerializer::parts(int, std::span<const chat::Part> parts, const engine::TokenEvent* event) {
  if (!stream_) return {};  // the finish has it all
  std::string calls;
  for (const chat::Part& part : parts) {
    switch (part.kind) {
      case chat::PartKind::kContent:
        content_ += part.text;
        break;
      case chat::PartKind::kReasoning:
        reasoning_ += part.text;
        break;
      case chat::PartKind::kCallBegin:
        calls += call_event(id_, part.call, part.id, part.text) + '\n';
        break;
      case chat::PartKind::kArguments:
        calls += arguments_event(id_, part.call, part.text) + '\n';
        break;
      case chat::PartKind::kCallEnd:
        break;
    }
  }
  if (event == nullptr) return calls;
  std::string lines = token_event(token_begin_, event->token, content_, reasoning_) + '\n';
  content_.clear();
  reasoning_.clear();
  if (!calls.empty()) lines += calls;
  return lines;
}

std::string FramesChatSerializer::finish(int, chat::ChatFinish&& finish) {
  Eos eos{.reason = reason_name(finish.reason),
          .text = content_,
          .reasoning = reasoning_,
          .stop = finish.stop,
          .usage = finish.usage,
          .reasoning_tokens = finish.reasoning_tokens,
          .timings = finish.timings};
  if (stream_) return eos_event(id_, eos) + '\n';
  eos.text = finish.turn.content;
  eos.reasoning = finish.turn.reasoning;
  eos.calls = finish.turn.calls;
  whole_ = eos_event(id_, eos);
  return {};
}

std::string FramesChatSerializer::failure(const Error& error) { return error_event(id_, error) + '\n'; }

}  // namespace cairn::api::frames
