/// A block of threads of an emulated GPU, with barriers, warp operations and asynchronous copies.
///
/// Threads are fibers of the calling thread, which are switched where they wait for each other: at barriers and at
/// operations of a warp. Warps and lanes run in random order, as far ahead of each other as barriers allow. Undefined
/// behaviour in CUDA ends the process with a message that gives the place: threads that wait at different places, an
/// operation by a part of a warp, an unaligned address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string_view>

#include "emulation/cuda/include/vector_types.h"

namespace cairn::kernels::cuda::emulated {

using Place = std::source_location;

/// Ends the process with a message that names the running thread and block.
[[noreturn]] void broken(std::string_view what, Place place);

/// The launch configuration of a kernel.
struct Grid {
  dim3 blocks;
  int32_t threads = 0;  ///< threads per block
  size_t shared_bytes = 0;
  bool dependent = false;  ///< may begin early: every thread must call wait_for_dependencies()
};
/// Runs `kernel` for every thread of every block, one block after the other in random order.
void run_grid(const Grid& grid, const std::function<void()>& kernel);

// -- Called by the running thread.

/// The block's shared memory, aligned to 16 bytes; all bytes are 0xff when the block begins.
std::byte* shared_memory();
void barrier(Place place);
/// Notes that the thread called it: kernels run one after the other here.
void wait_for_dependencies();

inline constexpr size_t kSlotBytes = 64;
/// A lane's value.
using Slot = std::byte[kSlotBytes];
/// The values of a warp's lanes, aligned to 16 bytes; valid until the lane's next exchange.
using Slots = Slot[32];
/// Exchanges values of up to kSlotBytes between all lanes of `mask`, which must be the whole warp.
const Slots& exchange(uint32_t mask, const void* value, size_t bytes, Place place);

/// Copies asynchronously: until it is waited for, the copy may happen at any time. Mostly `to` is garbage until then,
/// and `from` is read at the end.
void copy_later(void* to, const void* from, size_t bytes, Place place);
/// Makes the copies since the last call a group.
void end_group();
/// Waits until at most `left` groups of this thread are in flight.
void wait_for_groups(size_t left);

}  // namespace cairn::kernels::cuda::emulated
