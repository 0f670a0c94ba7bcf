/// Reads messages that people type, with an editor where the terminal can have one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "terminal/input_history.h"
#include "terminal/line_editor.h"

namespace cairn::terminal {

struct TypedMessage {
  std::string text;
  /// Text throughout, even if it looks like a command: it was typed as a block.
  bool is_block = false;
};

enum class ReadOutcome : uint8_t {
  kMessage,
  kInterrupted,  ///< Ctrl-C where nothing was typed
  kEnded,
};

class MessageReader {
 public:
  virtual ~MessageReader() = default;
  /// Waits for a message. Errors: those of LineInput::next; kInvalidArgument, kTooLarge: a line that is no terminal's
  /// is no text, or too long.
  virtual Result<ReadOutcome> read(TypedMessage& message) = 0;
  /// Remembers a message for the arrow keys. Errors: those of InputHistory::add.
  virtual Result<void> remember(std::string_view message) = 0;
  /// Tells that an answer is written from now on (so that Ctrl-C is a signal), or that it is over.
  virtual void set_answering(bool on) = 0;
};

struct ReaderOptions {
  std::string prompt = "> ";
  Completer complete{};
  /// Set by the program's handler of SIGINT; read() takes it back.
  std::atomic<bool>* interrupted = nullptr;
  InputHistory history{};
};

/// Reads keys of the terminal `input`, which hands over each of them meanwhile, and draws on the terminal `output`.
/// Errors: kUnsupported, one of them is no terminal that moves its cursor.
Result<std::unique_ptr<MessageReader>> edit_messages(int input, int output, ReaderOptions options);

/// Reads lines of `input` as they are; LineJoiner puts them together. `prompt` is shown before each message, and gets
/// the text; `on_terminal`: an input whose lines the terminal may have cut.
std::unique_ptr<MessageReader> read_lines(int input, bool on_terminal, std::function<void(std::string_view)> show,
                                          ReaderOptions options);

}  // namespace cairn::terminal
