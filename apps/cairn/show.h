/// Text on standard output that is to be seen at once.
#pragma once

#include <cstdio>
#include <string_view>

namespace cairn {

inline void show(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace cairn
