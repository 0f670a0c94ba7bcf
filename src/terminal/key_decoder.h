/// The bytes that a terminal sends -> keys. It knows no terminal: bytes in, keys out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "terminal/key.h"

namespace cairn::terminal {

/// Decodes UTF-8, control characters, and the sequences of xterm and its relatives for cursor keys, modified keys and
/// bracketed paste. Sequences that it does not know are passed over whole.
class KeyDecoder {
 public:
  /// What these bytes complete.
  std::vector<Key> push(std::string_view bytes);
  /// Whether the last bytes may be the beginning of a longer sequence: an escape, or part of a character.
  bool waits_for_more() const { return !pending_.empty() && !in_paste_; }
  /// Whether a paste has begun that has not ended yet.
  bool in_paste() const { return in_paste_; }
  /// No more bytes came for a while: an escape stands alone, and a paste ends with what has come of it.
  std::vector<Key> flush();

 private:
  /// Takes one key from the front of pending_; returns whether it was complete.
  bool take(std::vector<Key>& keys);
  bool take_text(std::vector<Key>& keys);
  bool take_paste(std::vector<Key>& keys);
  bool take_escape(std::vector<Key>& keys);
  bool take_control_sequence(std::vector<Key>& keys);
  void end_paste(std::vector<Key>& keys, size_t bytes);

  std::string pending_;
  bool in_paste_ = false;
  size_t searched_ = 0;  // bytes of a paste in which its end does not begin
};

}  // namespace cairn::terminal
