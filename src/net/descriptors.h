/// File descriptors: every connection needs one, and the system limits their number per process.
#pragma once

#include <cstddef>

namespace cairn::net {

/// Raises this process's limit of open files as far as the system allows, and returns the new limit.
size_t raise_descriptor_limit();

/// A reserved descriptor, used when there is no other one, so that a client gets an error instead of waiting forever.
class SpareDescriptor {
 public:
  SpareDescriptor() { take(); }
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;
  ~SpareDescriptor() { free(); }

  /// Frees the descriptor, accepts one connection from the non-blocking `listener` and returns its socket, to be closed
  /// before give_back; negative if no connection waits or the descriptor is in use.
  int accept(int listener);
  void give_back() { take(); }

 private:
  void take();
  void free();

  int descriptor_ = -1;
};

}  // namespace cairn::net
