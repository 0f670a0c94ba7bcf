#include "terminal/raw_mode.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace cairn::terminal {
namespace {

constexpr std::string_view kPasteOn = "\x1b[?2004h";
constexpr std::string_view kPasteOff = "\x1b[?2004l";
constexpr std::array kEndingSignals = {SIGTERM, SIGHUP, SIGQUIT};

/// What signal handlers need: they reach nothing but globals.
struct Shared {
  std::atomic<int> descriptor = -1;  // of the terminal while a RawMode lives
  termios before{};
  std::array<struct sigaction, kEndingSignals.size()> ending{};
  struct sigaction resized{};
  struct sigaction continued{};
  std::atomic<bool> redraw = false;
  std::atomic<bool> signals = false;
};
Shared shared;

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

void restore(int descriptor) {
  write_all(descriptor, kPasteOff);
  ::tcsetattr(descriptor, TCSADRAIN, &shared.before);
}

void apply(int descriptor) {
  termios raw = shared.before;
  raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | IXON | ISTRIP);
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  if (!shared.signals.load()) raw.c_lflag &= ~static_cast<tcflag_t>(ISIG);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(descriptor, TCSADRAIN, &raw);  // what was typed ahead stays
}

void end_by(int signal) {
  if (const int descriptor = shared.descriptor.load(); descriptor >= 0) restore(descriptor);
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

void wish_redraw(int) { shared.redraw = true; }

void continue_after_stop(int) {
  if (const int descriptor = shared.descriptor.load(); descriptor >= 0) {
    apply(descriptor);
    write_all(descriptor, kPasteOn);
  }
  shared.redraw = true;
}

void handle(int signal, void (*handler)(int), struct sigaction& before) {
  struct sigaction action{};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // poll() and read() are to return
  ::sigaction(signal, &action, &before);
}

}  // namespace

Result<RawMode> RawMode::enter(int descriptor) {
  if (shared.descriptor.load() >= 0 || ::tcgetattr(descriptor, &shared.before) != 0)
    return fail(Code::kUnsupported, "standard input is no terminal");
  shared.signals = false;
  shared.descriptor = descriptor;
  for (size_t i = 0; i < kEndingSignals.size(); ++i) handle(kEndingSignals[i], end_by, shared.ending[i]);
  handle(SIGWINCH, wish_redraw, shared.resized);
  handle(SIGCONT, continue_after_stop, shared.continued);
  apply(descriptor);
  write_all(descriptor, kPasteOn);
  return RawMode(descriptor);
}

RawMode::RawMode(RawMode&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

RawMode::~RawMode() {
  if (descriptor_ < 0) return;
  shared.descriptor = -1;
  restore(descriptor_);
  for (size_t i = 0; i < kEndingSignals.size(); ++i) ::sigaction(kEndingSignals[i], &shared.ending[i], nullptr);
  ::sigaction(SIGWINCH, &shared.resized, nullptr);
  ::sigaction(SIGCONT, &shared.continued, nullptr);
}

void RawMode::set_signals(bool on) const {
  if (shared.signals.exchange(on) != on) apply(descriptor_);
}

void RawMode::suspend() const {
  restore(descriptor_);
  ::raise(SIGTSTP);  // SIGCONT's handler sets the terminal again
}

bool take_redraw_wish() { return shared.redraw.exchange(false); }

ScreenSize screen_size(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

bool moves_cursor() {
  const char* const terminal = std::getenv("TERM");
  return terminal != nullptr && *terminal != '\0' && std::string_view(terminal) != "dumb";
}

bool has_colour(int descriptor) {
  const char* const without = std::getenv("NO_COLOR");
  return ::isatty(descriptor) == 1 && moves_cursor() && (without == nullptr || *without == '\0');
}

}  // namespace cairn::terminal
