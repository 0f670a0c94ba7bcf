/// Unpredictable random numbers for ids that clients see: knowing some must not reveal the next.
#pragma once

#include <cstdint>
#include <string>

namespace cairn {

/// From the kernel's random source (getrandom), read ahead a few KiB per thread. Thread-safe.
uint64_t secure_random();
/// A random id: 32 hexadecimal digits, 128 bits.
std::string random_id();

}  // namespace cairn
