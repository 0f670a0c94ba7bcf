#include "terminal/message_reader.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text/text_file.h"
#include "base/text/utf8.h"
#include "terminal/key_decoder.h"
#include "terminal/message_text.h"
#include "terminal/raw_mode.h"
#include "terminal/screen.h"
#include "terminal/text_width.h"

namespace cairn::terminal {
namespace {

using std::chrono::milliseconds;

constexpr size_t kReadBytes = 64 << 10;
/// Time in which the rest of a sequence follows an escape; after it the escape was a key.
constexpr milliseconds kEscapeWait{50};
/// Time in which the rest of a text that a program types follows a line's end.
constexpr milliseconds kBurstWait{15};
/// Time without a byte after which a paste is taken as it is: its end was lost.
constexpr milliseconds kPasteWait{5'000};
constexpr milliseconds kForEver{-1};
constexpr milliseconds kNoWait{0};
constexpr size_t kCandidatesShownMax = 60;
/// A terminal that edits lines itself hands over no longer ones, and loses the rest.
constexpr size_t kTerminalLineBytes = 4'095;

void write_whole(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

/// Whether there is something to read within the time; false after a signal, too.
bool is_readable(int descriptor, milliseconds wait) {
  pollfd polled{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, static_cast<int>(wait.count())) > 0;
}

/// What an Enter in the middle of what comes at once is: a line's end of a text that a program types, or that is pasted
/// into a terminal that does not say so.
void read_burst(std::vector<Key>& keys) {
  const auto is_text = [](const Key& key) {
    return key.kind == KeyKind::kText || key.kind == KeyKind::kPaste || key.kind == KeyKind::kEnter;
  };
  for (size_t i = 0; i + 1 < keys.size(); ++i) {
    if (keys[i].kind == KeyKind::kEnter && is_text(keys[i + 1])) keys[i].kind = KeyKind::kNewline;
  }
}

class EditedMessages final : public MessageReader {
 public:
  EditedMessages(RawMode mode, int input, int output, ReaderOptions options)
      : mode_(std::move(mode)),
        input_(input),
        output_(output),
        options_(std::move(options)),
        editor_(options_.history, options_.complete) {}

  Result<ReadOutcome> read(TypedMessage& message) override {
    mode_.set_signals(false);
    if (options_.interrupted != nullptr) *options_.interrupted = false;
    editor_.begin();
    draw();
    while (true) {
      if (next_ == keys_.size() && !read_keys()) return leave(ReadOutcome::kEnded);
      while (next_ < keys_.size()) {
        const Key key = std::move(keys_[next_++]);
        if (const auto outcome = take(key, message)) return *outcome;
      }
      if (!is_readable(input_, kNoWait)) draw();  // of a long text, what has come of it is not drawn each time
    }
  }

  Result<void> remember(std::string_view message) override { return options_.history.add(message); }
  void set_answering(bool on) override { mode_.set_signals(on); }

 private:
  Frame frame() const {
    return lay_out(options_.prompt, editor_.buffer().text(), editor_.buffer().cursor(), screen_size(output_).columns);
  }
  void draw() { write_whole(output_, screen_.draw(frame(), screen_size(output_))); }

  ReadOutcome leave(ReadOutcome outcome) {
    write_whole(output_, screen_.leave());
    return outcome;
  }

  /// Waits for keys; false at the end of the input.
  bool read_keys() {
    keys_.clear();
    next_ = 0;
    while (keys_.empty()) {
      if (take_redraw_wish()) write_whole(output_, screen_.redraw(frame(), screen_size(output_)));
      const milliseconds wait = decoder_.in_paste() ? kPasteWait : decoder_.waits_for_more() ? kEscapeWait : kForEver;
      if (!is_readable(input_, wait)) {
        if (interrupted()) {
          keys_.push_back({KeyKind::kInterrupt});
        } else if (wait != kForEver) {
          keys_ = decoder_.flush();
        }
        continue;
      }
      if (!read_bytes()) return false;
      // An Enter at the end may be within a text of which the rest is still to come.
      while (!keys_.empty() && keys_.back().kind == KeyKind::kEnter && is_readable(input_, kBurstWait)) {
        if (!read_bytes()) break;
      }
    }
    read_burst(keys_);
    return true;
  }

  bool read_bytes() {
    const ssize_t got = ::read(input_, bytes_.data(), bytes_.size());
    if (got < 0) return errno == EINTR;
    if (got == 0) return false;
    std::ranges::move(decoder_.push({bytes_.data(), static_cast<size_t>(got)}), std::back_inserter(keys_));
    return true;
  }

  bool interrupted() const { return options_.interrupted != nullptr && options_.interrupted->exchange(false); }

  /// Has the editor do what the key says; an outcome ends the reading.
  std::optional<ReadOutcome> take(const Key& key, TypedMessage& message) {
    switch (editor_.apply(key)) {
      case EditResult::kMessage:
        draw();
        leave(ReadOutcome::kMessage);
        message.is_block = !editor_.is_literal() && editor_.buffer().text().starts_with(kBlockMark);
        message.text = editor_.is_literal() ? editor_.take() : without_block(editor_.take());
        return ReadOutcome::kMessage;
      case EditResult::kInterrupted: {
        draw();
        write_whole(output_, "^C");
        leave(ReadOutcome::kInterrupted);
        const bool was_empty = editor_.take().empty();
        if (was_empty) return ReadOutcome::kInterrupted;
        return std::nullopt;
      }
      case EditResult::kEnded:
        return leave(ReadOutcome::kEnded);
      case EditResult::kSuspended:
        leave(ReadOutcome::kEnded);
        mode_.suspend();
        return std::nullopt;
      case EditResult::kClearScreen:
        write_whole(output_, screen_.clear());
        return std::nullopt;
      case EditResult::kCandidates:
        show_candidates();
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  void show_candidates() {
    draw();
    std::string text = screen_.leave();
    const int columns = screen_size(output_).columns;
    int column = 0;
    const auto& candidates = editor_.candidates();
    for (size_t i = 0; i < std::min(candidates.size(), kCandidatesShownMax); ++i) {
      const std::string shown = harmless(candidates[i]);
      const int width = text_width(shown);
      if (column > 0 && column + width > columns) {
        text += "\r\n";
        column = 0;
      }
      text += shown + "  ";
      column += width + 2;
    }
    if (candidates.size() > kCandidatesShownMax)
      text += "... " + std::to_string(candidates.size() - kCandidatesShownMax) + " more";
    write_whole(output_, text + "\r\n");
  }

  const RawMode mode_;
  const int input_;
  const int output_;
  ReaderOptions options_;
  KeyDecoder decoder_;
  LineEditor editor_;
  Screen screen_;
  std::vector<Key> keys_;
  size_t next_ = 0;  // of keys_: the others are taken
  std::array<char, kReadBytes> bytes_{};
};

class PlainLines final : public MessageReader {
 public:
  PlainLines(int input, bool on_terminal, std::function<void(std::string_view)> show, ReaderOptions options)
      : on_terminal_(on_terminal),
        show_(std::move(show)),
        options_(std::move(options)),
        lines_(input, options_.interrupted) {}

  Result<ReadOutcome> read(TypedMessage& message) override {
    if (options_.interrupted != nullptr) *options_.interrupted = false;
    show_(options_.prompt);
    while (true) {
      CAIRN_TRY(const auto line, lines_.next());
      if (!line) {
        if (options_.interrupted != nullptr && options_.interrupted->exchange(false)) {
          joiner_.take();
          return ReadOutcome::kInterrupted;
        }
        if (joiner_.empty()) return ReadOutcome::kEnded;
        return finish(message);
      }
      ++line_number_;
      if (!on_terminal_) {
        CAIRN_TRY_VOID(check_line_length(*line));
        CAIRN_TRY_VOID(check_text(*line, fmt::format("line {} of standard input", line_number_)));
      } else if (line->size() >= kTerminalLineBytes) {
        log_warning("the terminal hands over {} bytes of a line at most: what was longer is lost", kTerminalLineBytes);
      }
      if (joiner_.add(*line)) return finish(message);
    }
  }

  Result<void> remember(std::string_view) override { return {}; }
  void set_answering(bool) override {}

 private:
  ReadOutcome finish(TypedMessage& message) {
    const std::string typed = joiner_.take();
    message.is_block = typed.starts_with(kBlockMark);
    message.text = utf8_replace_invalid(without_block(typed));
    return ReadOutcome::kMessage;
  }

  const bool on_terminal_;
  const std::function<void(std::string_view)> show_;
  ReaderOptions options_;
  LineInput lines_;
  int64_t line_number_ = 0;
  LineJoiner joiner_;
};

}  // namespace

Result<std::unique_ptr<MessageReader>> edit_messages(int input, int output, ReaderOptions options) {
  if (!moves_cursor() || ::isatty(output) != 1) return fail(Code::kUnsupported, "the terminal moves no cursor");
  CAIRN_TRY(RawMode mode, RawMode::enter(input));
  return std::make_unique<EditedMessages>(std::move(mode), input, output, std::move(options));
}

std::unique_ptr<MessageReader> read_lines(int input, bool on_terminal, std::function<void(std::string_view)> show,
                                          ReaderOptions options) {
  return std::make_unique<PlainLines>(input, on_terminal, std::move(show), std::move(options));
}

}  // namespace cairn::terminal
