#include "api/frames/answer.h"

#include <utility>

#include "api/frames/events.h"

namespace cairn::api::frames {

TextAnswer::TextAnswer(std::string id, bool stream)
    : id_(std::move(id)), stream_(stream), token_begin_(token_event_begin(id_)) {}

std::string TextAnswer::token(int, TokenEvent&& event) {
  if (stream_) return token_event(token_begin_, event.text, event.token) + '\n';
  text_ += event.text;
  return {};
}

std::string TextAnswer::finish(int, Finish&& finish) {
  text_ += finish.text;
  std::string event = eos_event(id_, finish, text_);
  if (stream_) return std::move(event) + '\n';
  whole_ = std::move(event);
  return {};
}

std::string TextAnswer::failure(const Error& error) { return error_event(id_, error) + '\n'; }

}  // namespace cairn::api::frames
