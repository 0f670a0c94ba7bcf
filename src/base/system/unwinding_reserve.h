/// Reserved memory for destructors that run because memory ran out. nlohmann's documents allocate while they are
/// destroyed, and an exception in a destructor ends the process.
#pragma once

#include <cstddef>

namespace cairn {

/// Size of the reserve: what flattening the largest document needs (kJsonValuesMax values of 16 bytes).
inline constexpr size_t kUnwindingReserveBytes = 64 << 20;

/// From now on `operator new` that finds no memory on a thread whose stack is being unwound gives the reserve back to
/// the system and tries again. The reserve is addresses without memory behind them; refill_unwinding_reserve() takes
/// them again.
void install_unwinding_reserve();
/// Makes the reserve available again if it was used and address space is free. Callable from any thread.
void refill_unwinding_reserve() noexcept;

}  // namespace cairn
