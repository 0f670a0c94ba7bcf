/// The tokens of one request, one at a time: who stops in the middle goes on there, and nothing waits unseen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

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
      auto prompt = std::move(events_.prompt);    // neither
      events_ = stream_->drain();
      if (!events_.prefill) events_.prefill = std::move(prefill);
      if (events_.prompt.empty()) {
        events_.prompt = std::move(prompt);
      } else {
        next_score_ = 0;
      }
      next_ = 0;
      if (events_.tokens.empty()) break;
    }
    return next_ < events_.tokens.size() ? &events_.tokens[next_] : nullptr;
  }
  /// How far the prompt is, once for each time that it is told. Called after next().
  std::optional<engine::PrefillProgress> take_prefill() { return std::exchange(events_.prefill, std::nullopt); }
  /// The next scores of the prompt, at most `most`; none: all were taken, or none are known. Called after next().
  std::span<engine::PromptScore> take_scores(size_t most) {
    const auto left = std::span(events_.prompt).subspan(next_score_);
    const auto taken = left.first(std::min(most, left.size()));
    next_score_ += taken.size();
    return taken;
  }
  /// There was a next one.
  engine::TokenEvent take() { return std::move(events_.tokens[next_++]); }
  /// After the last token; null: more may come.
  engine::Finish* finish() { return events_.finished && next_ == events_.tokens.size() ? &events_.finish : nullptr; }

 private:
  std::unique_ptr<engine::GenerateStream> stream_;
  engine::Events events_;  // taken from the stream
  size_t next_ = 0;        // of events_.tokens
  size_t next_score_ = 0;  // of events_.prompt
};

}  // namespace cairn::api
