#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace cairn {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "cairn: check failed at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace cairn
