#include "emulation/cuda/block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "emulation/cuda/fiber.h"
#include "emulation/cuda/include/cuda_runtime.h"
#include "kernels/cuda/runtime/grid.cuh"

uint3 threadIdx;
uint3 blockIdx;
dim3 gridDim;
dim3 blockDim;

namespace cairn::kernels::cuda::emulated {
namespace {

constexpr uint32_t kSeed = 1;
constexpr size_t kThreadsMost = 1024;  // of a block
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
  bool waited = false;  // for the kernels before
  // Asynchronous copies, of which the first `done` have happened, and how many of them each group ends with. Both lists
  // are emptied when all have happened, and keep their memory.
  std::vector<Copy> copies;
  size_t done = 0;
  std::vector<size_t> groups;
  size_t groups_done = 0;
};

// Where a thread waits, and the size of its value at an exchange.
struct Wait {
  Place place;
  uint32_t bytes = 0;
  State state = State::kEnded;
};

// Two sets of slots, used in turn, as a lane may be at its next exchange before others have read.
struct Warp {
  alignas(16) Slots slots[2];
  size_t exchanges = 0;
  State state = State::kEnded;
};

// The lanes of a warp that go on until they wait, one after the other in random order.
struct Turn {
  size_t warp = 0;
  uint32_t more = 0;  // how often the warp may go on before another one is chosen
  size_t begin = 0;   // first thread
  size_t count = 0;   // of threads
  size_t left = 0;    // threads that have not gone on
  size_t next = 0;    // of the count
  size_t apart = 0;   // steps from one to the next
};

[[noreturn]] void live();

// The block that is running. There is one at a time, since threadIdx and the like are global variables.
struct Block {
  std::vector<Thread> threads{kThreadsMost};
  std::vector<Wait> waits{kThreadsMost};
  std::vector<Warp> warps;
  Turn turn;
  size_t thread_count = 0;
  size_t running = 0;  // index of the running thread
  size_t warps_that_run = 0;
  const std::function<void()>* kernel = nullptr;
  bool dependent = false;
  std::unique_ptr<std::byte, decltype(&std::free)> shared{nullptr, &std::free};
  std::minstd_rand random{kSeed};

  Thread& thread() { return threads[running]; }
};
Block block;

Fibers& fibers() {
  static auto* all = new Fibers(kThreadsMost, &live);
  return *all;
}

uint32_t below(size_t count) { return static_cast<uint32_t>(block.random() % count); }

// The distance between numbers that visits each of [0, count) once, if it starts again at `count`.
size_t random_step(size_t count) {
  if (count == kWarp) return 2 * below(kWarp / 2) + 1;
  size_t step = 1 + below(std::max<size_t>(count - 1, 1));
  while (std::gcd(step, count) != 1) ++step;
  return step;
}

// Visits each of [0, count) once, in random order.
template <class Visit>
void in_random_order(size_t count, Visit visit) {
  const size_t step = random_step(count);
  size_t at = below(count);
  for (size_t i = 0; i < count; ++i) {
    visit(at);
    at += step;
    if (at >= count) at -= count;
  }
}

std::string text_of(Place place) { return std::string(place.file_name()) + ":" + std::to_string(place.line()); }

bool same(Place a, const Place& b) {
  if (std::memcmp(&a, &b, sizeof(a)) == 0) return true;  // most often even the same object
  const bool same_file = a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0;
  return same_file && a.line() == b.line() && a.column() == b.column();
}

// The common state of threads [begin, end): all wait at the same place, or all have ended; anything else is an error.
State common_state(size_t begin, size_t end, const char* of_whom) {
  const Wait& first = block.waits[begin];
  for (size_t i = begin + 1; i < end; ++i) {
    const Wait& other = block.waits[i];
    if (other.state == State::kEnded && first.state == State::kEnded) continue;
    if (other.state == first.state && same(other.place, first.place) && other.bytes == first.bytes) continue;
    const auto where = [](const Wait& wait) {
      return wait.state == State::kEnded ? "has ended" : "waits at " + text_of(wait.place);
    };
    broken(std::string("threads of a ") + of_whom + " part: thread " + std::to_string(begin) + " " + where(first) +
               ", thread " + std::to_string(i) + " " + where(other),
           first.state == State::kEnded ? other.place : first.place);
  }
  return first.state;
}

// Lets all threads continue past the barrier; false if all have ended.
bool pass_barrier() {
  if (common_state(0, block.thread_count, "block") == State::kEnded) return false;
  for (Warp& warp : block.warps) warp.state = State::kRuns;
  block.warps_that_run = block.warps.size();
  return true;
}

void choose_warp() {
  size_t number = below(block.warps.size());
  while (block.warps[number].state != State::kRuns) number = (number + 1) % block.warps.size();
  Turn& turn = block.turn;
  turn.warp = number;
  turn.more = below(kTurnMax);
  turn.begin = number * kWarp;
  turn.count = std::min<size_t>(kWarp, block.thread_count - turn.begin);
}

// All lanes of the turn's warp wait or have ended: chooses which warp goes on; false if all of the block have ended.
bool end_turn() {
  Turn& turn = block.turn;
  Warp& warp = block.warps[turn.warp];
  const State state = common_state(turn.begin, turn.begin + turn.count, "warp");
  if (state == State::kAtExchange) {
    if (turn.count != kWarp) {
      broken("an operation of a warp with fewer than 32 threads", block.waits[turn.begin].place);
    }
    ++warp.exchanges;
    if (turn.more > 0) {
      --turn.more;
      return true;
    }
  } else {
    warp.state = state;
    --block.warps_that_run;
    if (block.warps_that_run == 0 && !pass_barrier()) return false;
  }
  choose_warp();
  return true;
}

void begin_turn() {
  Turn& turn = block.turn;
  turn.left = turn.count;
  turn.next = below(turn.count);
  turn.apart = random_step(turn.count);
}

// Makes the turn's next thread the running one.
void choose_thread() {
  Turn& turn = block.turn;
  --turn.left;
  block.running = turn.begin + turn.next;
  threadIdx.x = static_cast<unsigned>(block.running);
  turn.next += turn.apart;
  if (turn.next >= turn.count) turn.next -= turn.count;
}

// Suspends the running thread until the others wait, too.
void wait(State state, size_t bytes, Place place) {
  const size_t own = block.running;
  block.waits[own] = {place, static_cast<uint32_t>(bytes), state};
  if (block.turn.left == 0) {
    if (!end_turn()) return fibers().leave(own);
    begin_turn();
  }
  choose_thread();
  if (block.running != own) fibers().change(own, block.running);
}

[[noreturn]] void live() {
  for (;;) {
    (*block.kernel)();
    Thread& own = block.thread();
    if (block.dependent && !own.waited)
      broken("a thread of a kernel that may begin early ends without waiting for those before it", Place::current());
    own.waited = false;
    if (!own.copies.empty() || !own.groups.empty()) broken("a thread ends with copies on their way", Place::current());
    wait(State::kEnded, 0, Place::current());
  }
}

void run_block(const Grid& grid, const std::function<void()>& kernel) {
  block.kernel = &kernel;
  block.dependent = grid.dependent;
  block.thread_count = static_cast<size_t>(grid.threads);
  block.warps.resize((block.thread_count + kWarp - 1) / kWarp);
  for (Warp& warp : block.warps) warp.state = State::kRuns;
  block.warps_that_run = block.warps.size();
  std::memset(block.shared.get(), 0xff, grid.shared_bytes);
  choose_warp();
  begin_turn();
  choose_thread();
  fibers().enter(block.running);
}

// Calls of memcpy would take longer than the copies.
void copy(const void* from, size_t bytes, Slot& to) {
  switch (bytes) {
    case 0:
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    case 48:
      std::memcpy(to, from, 48);
      break;
    default:
      std::memcpy(to, from, bytes);
  }
}

void end_first_group(Thread& thread) {
  const size_t end = thread.groups[thread.groups_done++];
  for (; thread.done < end; ++thread.done) {
    const Copy& copy = thread.copies[thread.done];
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

}  // namespace

void broken(std::string_view what, Place place) {
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

void barrier(Place place) { wait(State::kAtBarrier, 0, place); }

const Slots& exchange(uint32_t mask, const void* value, size_t bytes, Place place) {
  if (mask != kAllLanes) broken("an operation that is not of all lanes", place);
  const size_t number = block.running;
  Warp& warp = block.warps[number / kWarp];
  Slots& slots = warp.slots[warp.exchanges % 2];
  copy(value, bytes, slots[number % kWarp]);
  wait(State::kAtExchange, bytes, place);
  return slots;
}

void copy_later(void* to, const void* from, size_t bytes, Place place) {
  const auto both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  if (both % bytes != 0) broken("an asynchronous copy from or to an address that is not aligned", place);
  if (below(kEarlyCopies) == 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memset(to, 0xff, bytes);
  block.thread().copies.push_back({to, from, bytes});
}

void end_group() {
  Thread& own = block.thread();
  own.groups.push_back(own.copies.size());
}

void wait_for_groups(size_t left) {
  Thread& own = block.thread();
  while (own.groups.size() - own.groups_done > left) end_first_group(own);
  if (own.done < own.copies.size() || own.groups_done < own.groups.size()) return;
  own.copies.clear();
  own.groups.clear();
  own.done = own.groups_done = 0;
}

}  // namespace cairn::kernels::cuda::emulated
