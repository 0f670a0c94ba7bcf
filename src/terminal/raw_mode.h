/// The terminal as a line editor needs it, and as it was before.
#pragma once

#include "base/error.h"
#include "terminal/screen.h"

namespace cairn::terminal {

/// While one lives, the terminal hands over each key as it comes, shows none of them by itself and marks what is
/// pasted. It is as it was before when this is destroyed, and also when SIGTERM, SIGHUP or SIGQUIT end the program.
/// One at a time.
class RawMode {
 public:
  /// `descriptor` stays open. Errors: kUnsupported, it is no terminal.
  static Result<RawMode> enter(int descriptor);
  RawMode(RawMode&& other) noexcept;
  RawMode& operator=(RawMode&&) = delete;
  ~RawMode();

  /// Whether Ctrl-C and Ctrl-Z are signals, as while an answer is written, or keys.
  void set_signals(bool on) const;
  /// Stops the program, as Ctrl-Z does, with the terminal as it was before, until it is continued.
  void suspend() const;

 private:
  explicit RawMode(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;  // -1: moved from
};

/// Whether the terminal has changed its size, or the program was continued, since the last call.
bool take_redraw_wish();
/// The size of the terminal, or the one that terminals once had.
ScreenSize screen_size(int descriptor);
/// Whether the environment names a terminal that moves its cursor: TERM is neither empty nor "dumb".
bool moves_cursor();
/// Whether a terminal at the descriptor shows colours that are wanted: NO_COLOR is not set.
bool has_colour(int descriptor);

}  // namespace cairn::terminal
