/// File descriptors: every connection has one, and the system gives a process only so many.
#pragma once

#include <cstddef>

namespace cairn::net {

/// Raises the number of files that this process may have open as far as the system allows it, and says how many that
/// is.
size_t raise_descriptor_limit();

/// Is lent when there is no other descriptor, so that a client can be told so instead of waiting for ever.
class SpareDescriptor {
 public:
  SpareDescriptor() { take(); }
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;
  ~SpareDescriptor() { free(); }

  /// Frees it, accepts one connection from the non-blocking `listener` and returns its socket, to be closed before
  /// give_back; negative if none waits or there is no spare one.
  int accept(int listener);
  void give_back() { take(); }

 private:
  void take();
  void free();

  int descriptor_ = -1;
};

}  // namespace cairn::net
