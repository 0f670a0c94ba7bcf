/// Keys in, a message out: the buffer with what was typed before and completion. It knows no terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "terminal/edit_buffer.h"
#include "terminal/input_history.h"
#include "terminal/key.h"

namespace cairn::terminal {

/// What the end of a text may become.
struct Completion {
  size_t begin = 0;                     ///< where in the text the part begins that is completed
  std::vector<std::string> candidates;  ///< for the whole of that part, in order
};
/// Completes the end of the text before the cursor.
using Completer = std::function<Completion(std::string_view before)>;

/// What a key has done.
enum class EditResult : uint8_t {
  kNothing,
  kChanged,      ///< draw it again
  kMessage,      ///< it is complete
  kInterrupted,  ///< Ctrl-C
  kEnded,        ///< Ctrl-D where nothing is typed
  kSuspended,    ///< Ctrl-Z
  kClearScreen,
  kCandidates,  ///< show candidates()
};

class LineEditor {
 public:
  /// Both outlive the editor; `complete` may be empty.
  LineEditor(const InputHistory& history, Completer complete);

  /// After anything but a message, Ctrl-C or the end, the text is still there.
  EditResult apply(const Key& key);

  const EditBuffer& buffer() const { return buffer_; }
  const std::vector<std::string>& candidates() const { return candidates_; }
  /// Whether the beginning of the text was pasted, or is a message of before, so that """ is part of it.
  bool is_literal() const { return literal_; }
  /// Takes the text, and leaves none.
  std::string take();
  /// Begins another message: what was typed last is then the first of those before.
  void begin();

 private:
  EditResult edit(const Key& key);
  EditResult move(const Key& key);
  EditResult enter();
  EditResult insert(const Key& key);
  EditResult complete();
  EditResult show_entry(size_t entry);
  EditResult older();
  EditResult newer();
  EditResult search();
  EditResult cut(std::string text);

  const InputHistory& history_;
  const Completer complete_;
  EditBuffer buffer_;
  std::string cut_;       // what was cut last
  size_t entry_;          // of the history that is shown; its size: what is typed
  std::string draft_;     // what was typed before an entry is shown
  std::string searched_;  // of the search that goes on
  bool searching_ = false;
  bool literal_ = false;
  bool draft_literal_ = false;
  bool pasted_end_ = false;  // the last key was a paste
  std::vector<std::string> candidates_;
};

}  // namespace cairn::terminal
