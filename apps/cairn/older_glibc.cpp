// The one function of glibc 2.36 that a static program (CAIRN_STATIC) would need, by std::random_device of its C++
// library: with this one it runs on glibc 2.35 as well.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

extern "C" uint32_t arc4random() noexcept {
  uint32_t bits = 0;
  if (::getentropy(&bits, sizeof bits) != 0) std::abort();  // a kernel from before 2014
  return bits;
}
