/// The tokens of one request, one at a time: who stops in the middle goes on there, and nothing waits unseen.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "engine/engine.h"

namespace cairn::api {

/// Reads a stream to its end. One thread.
class EventReader {
 public:
  explicit EventReader(std::unique_ptr<engine::GenerateStream> stream) : stream_(std::move(stream)) {}

  engine::GenerateStream& stream() { return *stream_; }
  /// The next token; it stays the next until taken. Null: whatever comes after this call is told by the stream's
  /// on_events, or the request is over.
  engine::TokenEvent* next() {
    // Until the stream has nothing: it tells of events when they come, and not again because some are left.
    while (next_ == events_.tokens.size() && !events_.finished) {
      auto prefill = std::move(events_.prefill);  // not taken yet
      events_ = stream_->drain();
      if (!events_.prefill) events_.prefill = std::move(prefill);
      next_ = 0;
      if (events_.tokens.empty()) break;
    }
    return next_ < events_.tokens.size() ? &events_.tokens[next_] : nullptr;
  }
  /// How far the prompt is, once for each time that it is told. Called after next().
  std::optional<engine::PrefillProgress> take_prefill() { return std::exchange(events_.prefill, std::nullopt); }
  /// There was a next one.
  engine::TokenEvent take() { return std::move(events_.tokens[next_++]); }
  /// After the last token; null: more may come.
  engine::Finish* finish() { return events_.finished && next_ == events_.tokens.size() ? &events_.finish : nullptr; }

 private:
  std::unique_ptr<engine::GenerateStream> stream_;
  engine::Events events_;  // taken from the stream
  size_t next_ = 0;        // of events_.tokens
};

}  // namespace cairn::api
