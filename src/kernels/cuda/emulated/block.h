/// A block of threads of an emulated GPU, and what its threads do together.
///
/// Threads are fibers of the calling thread, which change places where they wait for each other: at barriers and at
/// operations of a warp. Warps and lanes run in random order, as far ahead of each other as barriers let them. Whatever
/// CUDA leaves undefined ends the process with a message that says where: waiting at different places, an operation of
/// a part of a warp, an address that is not aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string_view>

#include "kernels/cuda/emulated/include/vector_types.h"

namespace cairn::cuda::emulated {

using Place = std::source_location;

/// Ends the process, with the thread and block that run.
[[noreturn]] void broken(std::string_view what, const Place& place);

/// What a kernel is launched with.
struct Grid {
  dim3 blocks;
  int32_t threads = 0;  ///< of a block
  size_t shared_bytes = 0;
};
/// Runs `kernel` for every thread of every block, one block after the other in random order.
void run_grid(const Grid& grid, const std::function<void()>& kernel);

// -- For the thread that runs.

/// Aligned to 16 bytes; 0xff all over when the block begins.
std::byte* shared_memory();
void barrier(const Place& place);

inline constexpr size_t kSlotBytes = 32;
/// What a warp's lanes have brought; valid until the lane's next exchange.
using Slots = std::byte[32][kSlotBytes];
/// All lanes of `mask`, which are all of the warp, bring up to kSlotBytes.
const Slots& exchange(uint32_t mask, const void* value, size_t bytes, const Place& place);

/// Until it is waited for, the copy may happen at any time: mostly `to` is garbage for so long, and `from` read in the
/// end.
void copy_later(void* to, const void* from, size_t bytes, const Place& place);
/// The copies since the last call are a group.
void end_group();
/// Until no more than `left` groups of this thread are on their way.
void wait_for_groups(size_t left);

}  // namespace cairn::cuda::emulated
