/// For tests: the events of a stream, collected.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace cairn::engine {

/// All events of a stream, put together.
struct Answer {
  std::vector<PromptScore> prompt;
  std::vector<TokenId> tokens;
  std::string text;  ///< including the finish's text
  std::vector<std::string> parts;
  Finish finish;
  bool finished = false;

  void add(Events&& events) {
    if (!events.prompt.empty()) {
      EXPECT_TRUE(prompt.empty() && tokens.empty());
      prompt = std::move(events.prompt);
    }
    for (TokenEvent& event : events.tokens) {
      tokens.push_back(event.token);
      text += event.text;
      parts.push_back(std::move(event.text));
    }
    EXPECT_FALSE(finished && (events.finished || !events.tokens.empty()));
    if (!events.finished) return;
    finished = true;
    text += events.finish.text;
    finish = std::move(events.finish);
  }
};

/// Collects to the end of the answer.
inline void collect(GenerateStream& stream, Answer& answer) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!answer.finished && std::chrono::steady_clock::now() < deadline) {
    answer.add(stream.wait(std::chrono::milliseconds(500)));
  }
  EXPECT_TRUE(answer.finished);
}
inline Answer collect(GenerateStream& stream) {
  Answer answer;
  collect(stream, answer);
  return answer;
}

/// Collects all streams to their ends, draining them in turn so that none stalls for another.
inline std::vector<Answer> collect_together(std::span<const std::unique_ptr<GenerateStream>> streams) {
  std::vector<Answer> answers(streams.size());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto finished = [&] { return std::ranges::all_of(answers, &Answer::finished); };
  while (!finished() && std::chrono::steady_clock::now() < deadline) {
    for (size_t i = 0; i < streams.size(); ++i) answers[i].add(streams[i]->wait(std::chrono::milliseconds(1)));
  }
  EXPECT_TRUE(finished());
  return answers;
}

/// Collects until there are `count` tokens.
inline void collect_tokens(GenerateStream& stream, size_t count, Answer& answer) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (answer.tokens.size() < count && std::chrono::steady_clock::now() < deadline) {
    answer.add(stream.wait(std::chrono::milliseconds(500)));
  }
  EXPECT_GE(answer.tokens.size(), count);
}

}  // namespace cairn::engine
