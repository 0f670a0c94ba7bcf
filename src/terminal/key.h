/// What a person does at the keyboard of a terminal.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::terminal {

enum class KeyKind : uint8_t {
  kText,     ///< Key::text is typed
  kPaste,    ///< Key::text is pasted: text that is meant as it stands
  kEnter,    ///< the message is complete
  kNewline,  ///< the message goes on in a line below
  kTab,
  kBackspace,
  kDelete,
  kEndOfInput,  ///< Ctrl-D: deletes, or ends the input where there is nothing to delete
  kLeft,
  kRight,
  kUp,
  kDown,
  kHome,
  kEnd,
  kWordLeft,
  kWordRight,
  kKillWordBefore,
  kKillWordAfter,
  kKillToBegin,
  kKillToEnd,
  kYank,
  kTranspose,
  kClearScreen,
  kInterrupt,
  kSuspend,
  kSearch,  ///< Ctrl-R: the last message that contains what is typed
  kEscape,
};

struct Key {
  KeyKind kind{};
  std::string text{};  ///< of kText and kPaste: well-formed UTF-8

  bool operator==(const Key&) const = default;
};

}  // namespace cairn::terminal
