#include "kernels/cuda/emulated/block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/emulated/fiber.h"
#include "kernels/cuda/emulated/include/cuda_runtime.h"
#include "kernels/cuda/runtime/grid.cuh"

uint3 threadIdx;
uint3 blockIdx;
dim3 gridDim;
dim3 blockDim;

namespace cairn::cuda::emulated {
namespace {

constexpr uint32_t kSeed = 1;
// Maximum number of times that a warp continues before another one is chosen, if it does not wait at a barrier.
constexpr uint32_t kTurnMax = 16;
// One in this many asynchronous copies happens at once, the others as late as possible.
constexpr size_t kEarlyCopies = 8;

enum class State : uint8_t { kRuns, kAtExchange, kAtBarrier, kEnded };

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

struct Thread {
  explicit Thread(void (*entry)()) : fiber(entry) {}

  Fiber fiber;
  State state = State::kEnded;
  Place place;          // where it waits
  size_t bytes = 0;     // size of its value at an exchange
  uint32_t parity = 0;  // parity of the number of exchanges so far
  bool waited = false;  // for the kernels before
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};

// Two sets of slots, as a lane may be at its next exchange before others have read.
struct Warp {
  Slots slots[2];
  State state = State::kEnded;
};

// The block that is running. There is one at a time, since threadIdx and the like are global variables.
struct Block {
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Warp> warps;
  size_t thread_count = 0;
  size_t running = 0;  // index of the running thread
  size_t warps_that_run = 0;
  const std::function<void()>* kernel = nullptr;
  bool dependent = false;
  std::unique_ptr<std::byte, decltype(&std::free)> shared{nullptr, &std::free};
  std::minstd_rand random{kSeed};

  Thread& thread() { return *threads[running]; }
};
Block block;

uint32_t below(size_t count) { return static_cast<uint32_t>(block.random() % count); }

// Visits each of [0, count) once, in random order.
template <class Visit>
void in_random_order(size_t count, Visit visit) {
  size_t step = 1 + below(std::max<size_t>(count - 1, 1));
  while (std::gcd(step, count) != 1) ++step;
  size_t at = below(count);
  for (size_t i = 0; i < count; ++i) {
    visit(at);
    at += step;
    if (at >= count) at -= count;
  }
}

std::string text_of(const Place& place) { return std::string(place.file_name()) + ":" + std::to_string(place.line()); }

bool same(const Place& a, const Place& b) {
  const bool same_file = a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0;
  return same_file && a.line() == b.line() && a.column() == b.column();
}

// The common state of threads [begin, end): all wait at the same place, or all have ended; anything else is an error.
State common_state(size_t begin, size_t end, const char* of_whom) {
  const Thread& first = *block.threads[begin];
  for (size_t i = begin + 1; i < end; ++i) {
    const Thread& other = *block.threads[i];
    if (other.state == State::kEnded && first.state == State::kEnded) continue;
    if (other.state == first.state && same(other.place, first.place) && other.bytes == first.bytes) continue;
    const auto where = [](const Thread& thread) {
      return thread.state == State::kEnded ? "has ended" : "waits at " + text_of(thread.place);
    };
    broken(std::string("threads of a ") + of_whom + " part: thread " + std::to_string(begin) + " " + where(first) +
               ", thread " + std::to_string(i) + " " + where(other),
           first.state == State::kEnded ? other.place : first.place);
  }
  return first.state;
}

void wait(State state, size_t bytes, const Place& place) {
  Thread& own = block.thread();
  own.state = state;
  own.bytes = bytes;
  own.place = place;
  own.fiber.leave();
}

[[noreturn]] void live() {
  for (;;) {
    (*block.kernel)();
    Thread& own = block.thread();
    if (block.dependent && !own.waited)
      broken("a thread of a kernel that may begin early ends without waiting for those before it", Place::current());
    own.waited = false;
    if (!own.open.empty() || !own.groups.empty()) broken("a thread ends with copies on their way", Place::current());
    own.state = State::kEnded;
    own.fiber.leave();
  }
}

// Runs each lane of the warp until it waits or has ended.
void run_warp(size_t number) {
  Warp& warp = block.warps[number];
  const size_t begin = number * kWarp, end = std::min(begin + kWarp, block.thread_count);
  in_random_order(end - begin, [&](size_t lane) {
    block.running = begin + lane;
    threadIdx.x = static_cast<unsigned>(block.running);
    block.thread().fiber.resume();
  });
  const State state = common_state(begin, end, "warp");
  if (state != State::kAtExchange) {
    warp.state = state;
    --block.warps_that_run;
    return;
  }
  if (end - begin != kWarp) broken("an operation of a warp with fewer than 32 threads", block.threads[begin]->place);
}

// Lets all threads continue past the barrier; false if all have ended.
bool pass_barrier() {
  if (common_state(0, block.thread_count, "block") == State::kEnded) return false;
  for (Warp& warp : block.warps) warp.state = State::kRuns;
  block.warps_that_run = block.warps.size();
  return true;
}

void run_block(const Grid& grid, const std::function<void()>& kernel) {
  block.kernel = &kernel;
  block.dependent = grid.dependent;
  block.thread_count = static_cast<size_t>(grid.threads);
  while (block.threads.size() < block.thread_count) block.threads.push_back(std::make_unique<Thread>(&live));
  block.warps.resize((block.thread_count + kWarp - 1) / kWarp);
  for (Warp& warp : block.warps) warp.state = State::kRuns;
  block.warps_that_run = block.warps.size();
  std::memset(block.shared.get(), 0xff, grid.shared_bytes);
  do {
    while (block.warps_that_run > 0) {
      size_t number = below(block.warps.size());
      while (block.warps[number].state != State::kRuns) number = (number + 1) % block.warps.size();
      for (uint32_t turn = 1 + below(kTurnMax); turn > 0 && block.warps[number].state == State::kRuns; --turn) {
        run_warp(number);
      }
    }
  } while (pass_barrier());
}

void end_first_group(Thread& thread) {
  for (const Copy& copy : thread.groups.front()) std::memcpy(copy.to, copy.from, copy.bytes);
  thread.groups.pop_front();
}

}  // namespace

void broken(std::string_view what, const Place& place) {
  std::fflush(stdout);
  std::fprintf(stderr, "emulated GPU: %.*s\n  at %s, %s\n", static_cast<int>(what.size()), what.data(),
               text_of(place).c_str(), place.function_name());
  if (block.kernel != nullptr) {
    std::fprintf(stderr, "  thread %zu of block (%u, %u, %u) of (%u, %u, %u)\n", block.running, blockIdx.x, blockIdx.y,
                 blockIdx.z, gridDim.x, gridDim.y, gridDim.z);
  }
  std::abort();
}

void run_grid(const Grid& grid, const std::function<void()>& kernel) {
  gridDim = grid.blocks;
  blockDim = dim3(static_cast<unsigned>(grid.threads));
  // Exactly as many bytes as the launch requested, so that AddressSanitizer notices accesses beyond them.
  void* shared = nullptr;
  if (posix_memalign(&shared, 16, std::max<size_t>(grid.shared_bytes, 1)) != 0) std::abort();
  block.shared.reset(static_cast<std::byte*>(shared));
  in_random_order(size_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z, [&](size_t number) {
    blockIdx.x = static_cast<unsigned>(number % grid.blocks.x);
    blockIdx.y = static_cast<unsigned>(number / grid.blocks.x % grid.blocks.y);
    blockIdx.z = static_cast<unsigned>(number / grid.blocks.x / grid.blocks.y);
    run_block(grid, kernel);
  });
  block.shared.reset();
  block.kernel = nullptr;
}

std::byte* shared_memory() { return block.shared.get(); }

void wait_for_dependencies() { block.thread().waited = true; }

void barrier(const Place& place) { wait(State::kAtBarrier, 0, place); }

const Slots& exchange(uint32_t mask, const void* value, size_t bytes, const Place& place) {
  if (mask != kAllLanes) broken("an operation that is not of all lanes", place);
  Thread& own = block.thread();
  const size_t number = block.running;
  Slots& slots = block.warps[number / kWarp].slots[own.parity];
  own.parity ^= 1;
  if (bytes > 0) std::memcpy(slots[number % kWarp], value, bytes);
  wait(State::kAtExchange, bytes, place);
  return slots;
}

void copy_later(void* to, const void* from, size_t bytes, const Place& place) {
  const auto both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  if (both % bytes != 0) broken("an asynchronous copy from or to an address that is not aligned", place);
  if (below(kEarlyCopies) == 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memset(to, 0xff, bytes);
  block.thread().open.push_back({to, from, bytes});
}

void end_group() {
  Thread& own = block.thread();
  own.groups.push_back(std::move(own.open));
  own.open.clear();
}

void wait_for_groups(size_t left) {
  Thread& own = block.thread();
  while (own.groups.size() > left) end_first_group(own);
}

}  // namespace cairn::cuda::emulated
