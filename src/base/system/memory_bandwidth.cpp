#include "base/system/memory_bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <span>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/system/machine.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLineBytes = 64;

#if defined(__x86_64__)
constexpr bool kForgets = true;
void forget_line(const void* line) { _mm_clflush(line); }
void end_forgetting() { _mm_mfence(); }
#elif defined(__aarch64__)
constexpr bool kForgets = true;
void forget_line(const void* line) { asm volatile("dc civac, %0" : : "r"(line) : "memory"); }
void end_forgetting() { asm volatile("dsb ish" : : : "memory"); }
#else
constexpr bool kForgets = false;
void forget_line(const void*) {}
void end_forgetting() {}
#endif

/// Memory of its own that is given back at the end.
class Buffer {
 public:
  explicit Buffer(size_t bytes)
      : data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)), bytes_(bytes) {
    // Large pages, where there are any: otherwise translating addresses takes half of the time.
    if (data_ != MAP_FAILED) ::madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~Buffer() {
    if (data_ != MAP_FAILED) ::munmap(data_, bytes_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Empty: there is none.
  std::span<uint64_t> words() const {
    if (data_ == MAP_FAILED) return {};
    return {static_cast<uint64_t*>(data_), bytes_ / sizeof(uint64_t)};
  }

 private:
  void* data_;
  size_t bytes_;
};

/// For which this thread has had a core.
double running_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

void forget(std::span<const uint64_t> words) {
  constexpr size_t kLineWords = kLineBytes / sizeof(uint64_t);
  for (size_t i = 0; i < words.size(); i += kLineWords) forget_line(&words[i]);
  end_forgetting();
}

/// Several sums, so that none waits for another, and lines that are asked for before they are needed, as the kernels
/// do.
uint64_t sum_of(std::span<const uint64_t> words) {
  constexpr size_t kSums = 8;
  constexpr size_t kPrefetchWords = 512;
  uint64_t sums[kSums] = {};
  const auto add = [&](size_t i) {
    for (size_t k = 0; k < kSums; ++k) sums[k] += words[i + k];
  };
  size_t i = 0;
  for (; i + kSums + kPrefetchWords <= words.size(); i += kSums) {
    __builtin_prefetch(words.data() + i + kPrefetchWords);
    add(i);
  }
  for (; i + kSums <= words.size(); i += kSums) add(i);
  uint64_t all = 0;
  for (const uint64_t sum : sums) all += sum;
  return all;
}

/// One thread's part of the memory, and what it read of it.
struct Reading {
  std::span<uint64_t> words;
  double bytes = 0;
  double seconds = 0;
  uint64_t sum = 0;  // so that the reading is not left out as one of no use

  void read() {
    const double begin = running_seconds();
    sum += sum_of(words);
    seconds += running_seconds() - begin;
    bytes += static_cast<double>(words.size_bytes());
  }
};

/// Has all threads wait until each of them is there.
class Start {
 public:
  ~Start() { open(kNever); }
  void go() { open(kGo); }
  /// False: not all threads could be started.
  bool wait() {
    state_.wait(kNotYet);
    return state_ == kGo;
  }

 private:
  enum State : int { kNotYet, kGo, kNever };
  void open(State state) {
    int before = kNotYet;
    if (state_.compare_exchange_strong(before, state)) state_.notify_all();
  }
  std::atomic<int> state_ = kNotYet;
};

}  // namespace

int64_t measure_memory_bandwidth() {
  const auto end = Clock::now() + kBandwidthTime;
  const int64_t available = std::min(available_memory_bytes(), address_space_left_bytes());
  if (!kForgets || kBandwidthBytes > available / kBandwidthFreeShare) return 0;
  const Buffer buffer(kBandwidthBytes);
  if (buffer.words().empty()) return 0;
  const auto threads = static_cast<size_t>(usable_cores());
  std::vector<Reading> readings(threads);
  bool over = false;  // changes only while all threads wait
  std::barrier round(static_cast<ptrdiff_t>(threads), [&]() noexcept { over = Clock::now() >= end; });
  const auto work = [&](size_t thread) {
    Reading& reading = readings[thread];
    const size_t each = buffer.words().size() / threads;
    reading.words = buffer.words().subspan(thread * each, each);
    std::memset(reading.words.data(), 1, reading.words.size_bytes());  // what nobody has written to is not there yet
    do {
      forget(reading.words);
      round.arrive_and_wait();  // all read at once, as the threads of a model do
      reading.read();
      round.arrive_and_wait();
    } while (!over);
  };
  {
    std::vector<std::jthread> others;
    Start start;
    for (size_t thread = 1; thread < threads; ++thread)
      others.emplace_back([&, thread] {
        if (start.wait()) work(thread);
      });
    start.go();
    work(0);
  }
  double all = 0;
  static std::atomic<uint64_t> sums;
  for (const Reading& reading : readings) {
    if (reading.seconds > 0) all += reading.bytes / reading.seconds;
    sums += reading.sum;
  }
  return static_cast<int64_t>(all);
}

int64_t memory_bandwidth() {
  static const int64_t measured = measure_memory_bandwidth();
  return measured;
}

}  // namespace cairn
