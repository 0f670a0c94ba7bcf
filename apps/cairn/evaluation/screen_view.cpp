#include "evaluation/screen_view.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "output.h"
#include "terminal/key_decoder.h"
#include "terminal/raw_mode.h"
#include "terminal/screen.h"
#include "terminal/text_width.h"

namespace cairn {
namespace {

using evaluation::Progress;
using evaluation::Question;
using evaluation::QuestionState;
using std::chrono::steady_clock;
using terminal::KeyKind;

constexpr int kPollMilliseconds = 100;
constexpr int kLineSeconds = 60;
constexpr int kListRowsMin = 3;
constexpr int kIdColumns = 28;

/// The first line of a text, as wide as fits.
std::string one_line(std::string_view text, int columns) {
  std::string line = terminal::harmless(text.substr(0, std::min(text.find('\n'), text.size())));
  std::ranges::replace(line, '\t', ' ');
  size_t end = 0;
  for (int width = 0; end < line.size();) {
    const size_t next = terminal::next_cluster(line, end);
    width += terminal::text_width(std::string_view(line).substr(end, next - end));
    if (width > columns) break;
    end = next;
  }
  return line.substr(0, end);
}

/// Folds a text at the width, and returns so many lines of it, the last ones if `at_end`.
std::string some_lines(std::string_view text, int columns, int rows, bool at_end) {
  const terminal::Frame frame = terminal::lay_out("", text, 0, columns);
  const auto all = static_cast<int>(frame.rows.size());
  const int begin = at_end ? std::max(0, all - rows) : 0;
  std::string out;
  for (int i = 0; i < rows; ++i)
    out += (begin + i < all ? frame.rows[static_cast<size_t>(begin + i)].text : std::string()) + "\n";
  return out;
}

class View {
 public:
  View(evaluation::QuestionRun& run, std::span<const Question> questions, const std::string& model)
      : run_(run), questions_(questions), model_(model), begin_(steady_clock::now()) {}

  std::string text(const terminal::ScreenSize& size) const;
  /// Whether the key leaves the view.
  bool take(const terminal::Key& key);

 private:
  std::string header(int columns) const;
  std::string row(size_t index, int columns) const;

  evaluation::QuestionRun& run_;
  const std::span<const Question> questions_;
  const std::string& model_;
  const steady_clock::time_point begin_;
  size_t picked_ = 0;
};

std::string View::header(int columns) const {
  const size_t done = run_.done();
  const double seconds = std::chrono::duration<double>(steady_clock::now() - begin_).count();
  const std::string left = time_left(done, questions_.size(), seconds);
  const char* state = done == questions_.size() ? "all answered" : run_.paused() ? "paused" : "running";
  return one_line(fmt::format("{}: {}/{} answered, {} right, {}{}{}", model_, done, questions_.size(), run_.right(),
                              state, left.empty() || run_.paused() ? "" : ", ", run_.paused() ? "" : left),
                  columns);
}

std::string View::row(size_t index, int columns) const {
  const Question& question = questions_[index];
  const QuestionState state = run_.state(index);
  std::string said = "waiting";
  if (state.progress == Progress::kAsked) said = "asked";
  if (state.progress == Progress::kDone)
    said = fmt::format("{:<7} {}", evaluation::outcome_name(state.grade.outcome), state.grade.read);
  return one_line(fmt::format("{} {:<{}} {:<8} {}  {}", index == picked_ ? '>' : ' ', question.id, kIdColumns,
                              evaluation::kind_name(question.kind), question.level, said),
                  columns);
}

std::string View::text(const terminal::ScreenSize& size) const {
  // A line less, as some terminals wrap behind the last column.
  const int columns = std::max(size.columns - 1, 1);
  const int rows = std::max(size.rows, 8);
  const int list = std::max(kListRowsMin, std::min<int>((rows - 4) / 2, static_cast<int>(questions_.size())));
  const int half = std::max(1, (rows - 5 - list) / 2);
  std::string text = header(columns) + "\n";
  const auto all = static_cast<int>(questions_.size());
  const int first = std::clamp(static_cast<int>(picked_) - list / 2, 0, std::max(0, all - list));
  for (int i = first; i < std::min(all, first + list); ++i) text += row(static_cast<size_t>(i), columns) + "\n";
  const Question& question = questions_[picked_];
  const QuestionState state = run_.state(picked_);
  text += "\n" + some_lines(question.text, columns, half, false);
  std::string answer = state.answer.content;
  for (const evaluation::AnswerCall& call : state.answer.calls)
    answer += fmt::format("\n{}({})", call.name, call.arguments);
  text += one_line("right: " + question.answer_text, columns) + "\n" + some_lines(answer, columns, half, true);
  return text +
         one_line("p pause or go on, Up and Down pick, Enter runs the picked one, q leaves with the report", columns);
}

bool View::take(const terminal::Key& key) {
  switch (key.kind) {
    case KeyKind::kInterrupt:
    case KeyKind::kEndOfInput:
      return true;
    case KeyKind::kUp:
      picked_ -= picked_ > 0;
      break;
    case KeyKind::kDown:
      picked_ += picked_ + 1 < questions_.size();
      break;
    case KeyKind::kHome:
      picked_ = 0;
      break;
    case KeyKind::kEnd:
      picked_ = questions_.size() - 1;
      break;
    case KeyKind::kEnter:
      run_.ask(picked_);
      break;
    case KeyKind::kText:
      for (const char letter : key.text) {
        if (letter == 'q') return true;
        if (letter == 'p') run_.paused() ? run_.go_on() : run_.pause();
      }
      break;
    default:
      break;
  }
  return false;
}

}  // namespace

std::string time_left(size_t done, size_t all, double seconds) {
  if (done == 0 || done >= all) return "";
  const auto left = static_cast<int64_t>(seconds / static_cast<double>(done) * static_cast<double>(all - done));
  return fmt::format("{}:{:02} left", left / kLineSeconds, left % kLineSeconds);
}

bool has_screen() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && terminal::moves_cursor(); }

Result<void> view_run(evaluation::QuestionRun& run, std::span<const Question> questions, const std::string& model,
                      std::atomic<bool>& stopped) {
  CAIRN_TRY(const terminal::RawMode raw, terminal::RawMode::enter(STDIN_FILENO));
  terminal::Screen screen;
  terminal::KeyDecoder decoder;
  View view(run, questions, model);
  std::string shown;
  while (!stopped) {
    const terminal::ScreenSize size = terminal::screen_size(STDOUT_FILENO);
    std::string text = view.text(size);
    const bool redraw = terminal::take_redraw_wish();
    if (redraw || text != shown) {
      const terminal::Frame frame = terminal::lay_out("", text, text.size(), size.columns);
      CAIRN_TRY_VOID(show(redraw ? screen.redraw(frame, size) : screen.draw(frame, size)));
      shown = std::move(text);
    }
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&input, 1, kPollMilliseconds) <= 0) {
      for (const terminal::Key& key : decoder.flush())
        if (view.take(key)) stopped = true;
      continue;
    }
    std::array<char, 256> bytes;
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count <= 0) stopped = true;
    for (const terminal::Key& key : decoder.push({bytes.data(), static_cast<size_t>(std::max<ssize_t>(count, 0))}))
      if (view.take(key)) stopped = true;
  }
  return show(screen.leave());
}

}  // namespace cairn
