/// Unpredictable random numbers for ids that clients see: knowing some must not reveal the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

/// A random number from the kernel's random source (getrandom), read ahead a few KiB per thread. Thread-safe.
uint64_t secure_random();
/// `prefix` and 32 hexadecimal digits of it: 128 bits.
std::string random_id(std::string_view prefix = {});

/// Digits of such an id that the log shows: enough to find it among others.
inline constexpr size_t kLoggedIdDigits = 8;
/// The prefix and the first digits of an id that random_id() has made; another text as it is.
std::string_view logged_id(std::string_view id);

}  // namespace cairn
