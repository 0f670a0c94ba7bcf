#include "talk/answer_display.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "output.h"
#include "table_text.h"
#include "terminal/raw_mode.h"
#include "terminal/text_width.h"

namespace cairn {
namespace {

constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";
/// Seconds after which waiting is told though nothing is known of it.
constexpr double kSilentSeconds = 1;

std::string rate_text(int64_t tokens, double seconds) {
  return seconds > 0 && tokens > 0 ? fmt::format("{:.1f} tokens/s", static_cast<double>(tokens) / seconds) : "";
}

}  // namespace

std::string AnswerStats::text(int64_t context_tokens) const {
  std::string all;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) all += (all.empty() ? "" : " · ") + part;
  };
  if (tokens >= 0) add(fmt::format("{} token{}", grouped(tokens), tokens == 1 ? "" : "s"));
  if (tokens > 1) add(rate_text(tokens - 1, decode_seconds));
  if (first_seconds >= 0) add(fmt::format("{:.2f} s to the first", first_seconds));
  add(fmt::format("{:.1f} s", seconds));
  if (prompt_tokens >= 0 && tokens >= 0) {
    const std::string used = grouped(prompt_tokens + tokens);
    add(context_tokens > 0 ? fmt::format("context {} of {}", used, grouped(context_tokens)) : "context " + used);
  }
  add(note);
  return all;
}

AnswerDisplay::AnswerDisplay()
    : terminal_(::isatty(STDOUT_FILENO) == 1),
      colour_(terminal::has_colour(STDOUT_FILENO)),
      status_([this] { return waiting_text(); }) {}

double AnswerDisplay::seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

void AnswerDisplay::reading(int64_t total, int64_t cached, int64_t read) {
  read_seconds_ = seconds();
  cached_ = cached;
  read_ = read;
  total_ = total;
}

std::string AnswerDisplay::waiting_text() const {
  const int64_t total = total_;
  const int64_t read = read_;
  if (total == 0) return seconds() < kSilentSeconds ? "" : fmt::format("waiting, {:.0f} s", seconds());
  const std::string rate = rate_text(read - cached_, read_seconds_);
  return fmt::format("reading {} of {} tokens{}{}", grouped(read), grouped(total), rate.empty() ? "" : ", ", rate);
}

void AnswerDisplay::begin_text() {
  if (first_seconds_ >= 0) return;
  first_seconds_ = seconds();
  status_.erase();
}

void AnswerDisplay::thinking(std::string_view text) {
  if (text.empty()) return;
  begin_text();
  if (!terminal_) return;
  if (!std::exchange(in_thinking_, true) && colour_) show(kDim);
  show(terminal::harmless(text));
}

void AnswerDisplay::content(std::string_view text) {
  if (text.empty()) return;
  begin_text();
  end_thinking();
  answer_ += text;
  if (!terminal_) {
    show(text);
  } else {
    const std::string shown = terminal::harmless(text);
    show(colour_ ? style_.push(shown) : shown);
  }
}

void AnswerDisplay::end_thinking() {
  if (!std::exchange(in_thinking_, false)) return;
  if (colour_) show(kPlain);
  show("\n\n");
}

std::string AnswerDisplay::finish() {
  status_.erase();
  if (colour_) show(style_.finish());
  if (std::exchange(in_thinking_, false) && colour_) show(kPlain);
  return std::move(answer_);
}

void show_aside(std::string_view text) {
  const bool colour = terminal::has_colour(STDERR_FILENO);
  const std::string line = fmt::format("{}{}{}\n", colour ? kDim : "", terminal::harmless(text), colour ? kPlain : "");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace cairn
