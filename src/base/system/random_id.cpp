#include "base/system/random_id.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>

namespace cairn {
namespace {

constexpr size_t kReadAheadBytes = 4 << 10;

struct ReadAhead {
  std::array<unsigned char, kReadAheadBytes> bytes;
  size_t used = kReadAheadBytes;
};

void fill(ReadAhead& ahead) {
  size_t filled = 0;
  while (filled < ahead.bytes.size()) {
    const ssize_t count = ::getrandom(ahead.bytes.data() + filled, ahead.bytes.size() - filled, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    filled += static_cast<size_t>(count);
  }
  // If a sandbox forbids the call, the library has other ways to the same source.
  if (filled < ahead.bytes.size()) {
    std::random_device device;
    for (; filled < ahead.bytes.size(); ++filled) ahead.bytes[filled] = static_cast<unsigned char>(device());
  }
  ahead.used = 0;
}

}  // namespace

uint64_t secure_random() {
  thread_local ReadAhead ahead;
  if (ahead.used + sizeof(uint64_t) > ahead.bytes.size()) fill(ahead);
  uint64_t number = 0;
  std::memcpy(&number, ahead.bytes.data() + ahead.used, sizeof number);
  // The bytes that were used are erased, so that memory that leaks later does not reveal old ids.
  std::memset(ahead.bytes.data() + ahead.used, 0, sizeof number);
  ahead.used += sizeof number;
  return number;
}

std::string random_id(std::string_view prefix) {
  const uint64_t high = secure_random();
  return fmt::format("{}{:016x}{:016x}", prefix, high, secure_random());
}

std::string_view logged_id(std::string_view id) {
  constexpr size_t kDigits = 32;
  if (id.size() < kDigits || id.find_first_not_of("0123456789abcdef", id.size() - kDigits) != std::string_view::npos)
    return id;
  return id.substr(0, id.size() - kDigits + kLoggedIdDigits);
}

}  // namespace cairn
