/// Unpredictable random numbers for ids that clients see: knowing some must not reveal the next.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

/// A random number from the kernel's random source (getrandom), read ahead a few KiB per thread. Thread-safe.
uint64_t secure_random();
/// `prefix` and 32 hexadecimal digits of it: 128 bits.
std::string random_id(std::string_view prefix = {});

}  // namespace cairn
