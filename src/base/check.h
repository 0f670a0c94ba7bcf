/// Checks for programmer errors. No input may be able to make one fail; fuzzers verify that.
#pragma once

#include <string_view>

namespace cairn {
/// Prints the condition with its place and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}  // namespace cairn

/// Checked in all builds.
#define CAIRN_CHECK(condition) \
  (__builtin_expect(static_cast<bool>(condition), 1) ? void() : ::cairn::check_failed(#condition, __FILE__, __LINE__))

/// Checked in debug builds only, for conditions inside hot loops.
#ifdef NDEBUG
#define CAIRN_DCHECK(condition) void(sizeof(static_cast<bool>(condition)))
#else
#define CAIRN_DCHECK(condition) CAIRN_CHECK(condition)
#endif
