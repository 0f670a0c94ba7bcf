/// What is seen of an answer: what one waits for, thinking, text, and a line of numbers at its end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "talk/status_line.h"
#include "terminal/markdown.h"

namespace cairn {

/// The numbers of one answer. What is not known is below 0.
struct AnswerStats {
  int64_t prompt_tokens = -1;
  int64_t cached_tokens = 0;  ///< of the prompt, which were there already
  int64_t tokens = -1;
  double first_seconds = -1;   ///< to the first token
  double decode_seconds = -1;  ///< from the first to the last token
  double seconds = 0;
  std::string note{};  ///< why it is no whole answer; empty: it is

  /// "12 tokens · 45.2 tokens/s · 0.31 s to the first · context 512 of 8,192". `context_tokens` 0: not known.
  std::string text(int64_t context_tokens) const;
};

/// Prints thinking in another shade than the answer on a terminal, and not at all elsewhere; there Markdown gets
/// colours, too.
class AnswerDisplay {
 public:
  AnswerDisplay();

  /// Tells how many tokens of the prompt are read, of which `cached` were there already.
  void reading(int64_t total, int64_t cached, int64_t read);
  void thinking(std::string_view text);
  void content(std::string_view text);
  /// Ends the waiting, and returns the text so far, without the thinking.
  std::string finish();
  /// Time since the display began; to the first text, or below 0.
  double seconds() const;
  double first_seconds() const { return first_seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::string waiting_text() const;
  void begin_text();
  void end_thinking();

  const Clock::time_point begin_ = Clock::now();
  const bool terminal_;
  const bool colour_;
  bool in_thinking_ = false;
  double first_seconds_ = -1;
  terminal::MarkdownStyle style_;
  std::string answer_;
  std::atomic<int64_t> total_ = 0;
  std::atomic<int64_t> cached_ = 0;
  std::atomic<int64_t> read_ = 0;
  std::atomic<double> read_seconds_ = 0;
  StatusLine status_;  // last: its thread reads the others
};

/// Prints a line for the person at the terminal on standard error, dim where it has colours.
void show_aside(std::string_view text);

}  // namespace cairn
