// Tests the emulated GPU itself (tests/emulation/cuda): correct kernels work, and wrong ones are detected.
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kThreads = 128;

class Emulation : public testing::Test {
 protected:
  ~Emulation() override {
    cudaStreamDestroy(stream_);
    for (int32_t* array : arrays_) cudaFree(array);
  }

  int32_t* array(int64_t count = kThreads) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, static_cast<size_t>(count) * sizeof(int32_t)), cudaSuccess);
    arrays_.push_back(static_cast<int32_t*>(data));
    return arrays_.back();
  }
  void write(const std::vector<int32_t>& from, int32_t* to) {
    cudaMemcpyAsync(to, from.data(), from.size() * sizeof(int32_t), cudaMemcpyHostToDevice, stream_);
    cudaStreamSynchronize(stream_);
  }
  std::vector<int32_t> read(const int32_t* from, int64_t count = kThreads) {
    std::vector<int32_t> to(static_cast<size_t>(count));
    cudaMemcpyAsync(to.data(), from, to.size() * sizeof(int32_t), cudaMemcpyDeviceToHost, stream_);
    cudaStreamSynchronize(stream_);
    return to;
  }
  /// Runs one block.
  template <class... Parameters, class... Arguments>
  void run(void (*kernel)(Parameters...), const Arguments&... arguments) {
    launch(kernel, dim3(1), kThreads, kThreads * sizeof(int32_t), launches_, arguments...);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    cudaStreamSynchronize(stream_);
  }
  /// The numbers 0, 1, 2 ...
  static std::vector<int32_t> numbers() {
    std::vector<int32_t> all(kThreads);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  static cudaStream_t made_stream() {
    cudaStream_t made = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), cudaSuccess);
    return made;
  }

  const cudaStream_t stream_ = made_stream();
  LaunchQueue launches_{stream_};
  std::vector<int32_t*> arrays_;
};

template <bool kWaits>
void copy_after_earlier_kernels(const int32_t* from, int32_t* to) {
  trigger_dependents();
  if (kWaits) wait_for_dependencies();
  to[threadIdx.x] = from[threadIdx.x];
}

TEST_F(Emulation, AKernelThatMayBeginEarlyWaitsForThoseBeforeIt) {
  int32_t* from = array();
  int32_t* to = array();
  write(numbers(), from);
  const auto start = [&](auto kernel) {
    launch_dependent(kernel, dim3(1), kThreads, 0, launches_, from, to);
    cudaStreamSynchronize(stream_);
  };
  start(copy_after_earlier_kernels<true>);
  EXPECT_EQ(read(to), numbers());
  EXPECT_DEATH(start(copy_after_earlier_kernels<false>), "ends without waiting for those before it");
}

// Gives each number to the thread at the mirrored index.
template <bool kWaits>
void mirror(const int32_t* from, int32_t* to) {
  auto* shared = reinterpret_cast<int32_t*>(shared_memory());
  shared[threadIdx.x] = from[threadIdx.x];
  if (kWaits) __syncthreads();
  to[threadIdx.x] = shared[kThreads - 1 - threadIdx.x];
}

TEST_F(Emulation, ThreadsWaitOnlyAtBarriers) {
  int32_t* from = array();
  int32_t* to = array();
  write(numbers(), from);
  std::vector<int32_t> mirrored = numbers();
  std::ranges::reverse(mirrored);
  run(mirror<true>, from, to);
  EXPECT_EQ(read(to), mirrored);
  run(mirror<false>, from, to);
  EXPECT_NE(read(to), mirrored);
}

void sum_of_warp(const int32_t* from, int32_t* to) {
  int32_t sum = from[threadIdx.x];
  for (int apart = 1; apart < kWarp; apart *= 2) sum += __shfl_xor_sync(kAllLanes, sum, apart);
  to[threadIdx.x] = sum;
}

TEST_F(Emulation, LanesOfAWarpExchangeNumbers) {
  int32_t* from = array();
  int32_t* to = array();
  write(numbers(), from);
  run(sum_of_warp, from, to);
  const std::vector<int32_t> sums = read(to);
  for (int32_t i = 0; i < kThreads; ++i) EXPECT_EQ(sums[i], 32 * (i / 32 * 32) + 496) << i;
}

// Copies four numbers per thread asynchronously.
template <int kLeft>
void copied(const int32_t* from, int32_t* to) {
  auto* shared = reinterpret_cast<int32_t*>(shared_memory());
  const auto at = 4 * static_cast<int>(threadIdx.x);
  if (at < kThreads) __pipeline_memcpy_async(shared + at, from + at, 16);
  __pipeline_commit();
  __pipeline_wait_prior(kLeft);
  __syncthreads();
  to[threadIdx.x] = shared[threadIdx.x];
  __pipeline_wait_prior(0);
}

TEST_F(Emulation, AsynchronousCopiesAreCompleteOnceTheyAreWaitedFor) {
  int32_t* from = array();
  int32_t* to = array();
  write(numbers(), from);
  run(copied<0>, from, to);
  EXPECT_EQ(read(to), numbers());
  run(copied<1>, from, to);
  EXPECT_NE(read(to), numbers());
}

// The stream does its work when it is waited for, so it reads data that was changed before then.
TEST_F(Emulation, StreamsDoTheirWorkWhenTheyAreWaitedFor) {
  int32_t* there = array();
  std::vector<int32_t> host = numbers();
  cudaMemcpyAsync(there, host.data(), kThreads * sizeof(int32_t), cudaMemcpyHostToDevice, stream_);
  host[5] = 500;
  EXPECT_EQ(read(there)[5], 500);
}

TEST_F(Emulation, LaunchesBeyondTheDevicesLimitsAreErrors) {
  int32_t* at = array();
  launch(sum_of_warp, dim3(1), 2'048, 0, launches_, at, at);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  launch(sum_of_warp, dim3(1, 70'000), 32, 0, launches_, at, at);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  launch(sum_of_warp, dim3(1), 32, 100 << 10, launches_, at, at);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue) << "more than it may have unasked";
  EXPECT_EQ(cudaFuncSetAttribute(sum_of_warp, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10), cudaSuccess);
  launch(sum_of_warp, dim3(1), 32, 100 << 10, launches_, at, at);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

void two_barriers() {
  if (threadIdx.x < 64) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
void barrier_after_the_end() {
  if (threadIdx.x >= 64) return;
  __syncthreads();
}
void half_a_warp() {
  if (threadIdx.x % 32 < 16) __syncwarp();
}
void mask_of_half_a_warp() { __syncwarp(0xffffu); }
void between_words(const int32_t* from, int32_t* to) {
  to[threadIdx.x] = __ldg(reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(from) + 2));
}
void copy_between(const int32_t* from) {
  __pipeline_memcpy_async(shared_memory(), from + 1, 16);
  __pipeline_commit();
}
void copy_without_wait(const int32_t* from) {
  auto* shared = reinterpret_cast<int32_t*>(shared_memory());
  for (int i = 0; i < 16; ++i) __pipeline_memcpy_async(shared + threadIdx.x / 4 * 4, from, 16);
  __pipeline_commit();
}

using EmulationDeathTest = Emulation;

TEST_F(EmulationDeathTest, UndefinedBehaviourOfCudaEndsTheProcess) {
  int32_t* at = array();
  EXPECT_DEATH(run(two_barriers), "threads of a block part: .*emulation_test");
  EXPECT_DEATH(run(barrier_after_the_end), "threads of a block part: .*has ended");
  EXPECT_DEATH(run(half_a_warp), "threads of a warp part: .*has ended");
  EXPECT_DEATH(run(mask_of_half_a_warp), "not of all lanes");
  EXPECT_DEATH(run(between_words, at, at), "not aligned");
  EXPECT_DEATH(run(copy_between, at), "not aligned");
  EXPECT_DEATH(run(copy_without_wait, at), "ends with copies on their way");
}

TEST_F(EmulationDeathTest, CopiesInTheWrongDirectionEndTheProcess) {
  int32_t* there = array();
  int32_t here[1] = {};
  EXPECT_DEATH(cudaMemcpyAsync(there, there, 4, cudaMemcpyHostToDevice, stream_), "sides");
  EXPECT_DEATH(cudaMemcpyAsync(here, here, 4, cudaMemcpyDeviceToHost, stream_), "sides");
  EXPECT_DEATH(cudaMemcpyAsync(there, here, 4, cudaMemcpyDeviceToDevice, stream_), "sides");
  EXPECT_DEATH(cudaMemcpyAsync(here, there, 4, cudaMemcpyDeviceToHost, nullptr), "default one");
  EXPECT_DEATH(cudaFree(here), "no memory of the device");
}

TEST_F(EmulationDeathTest, WorkForAnotherDeviceEndsTheProcess) {
  int32_t* there = array();
  int32_t here[1] = {};
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_DEATH(launch(mirror<true>, dim3(1), kThreads, 0, launches_, there, there), "another device");
  EXPECT_DEATH(cudaMemsetAsync(there, 0, 4, stream_), "current device");
  cudaStream_t other = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_DEATH(cudaMemcpyAsync(here, there, 4, cudaMemcpyDeviceToHost, other), "sides");
#if defined(__SANITIZE_ADDRESS__)
  const auto touch = [&] {
    LaunchQueue of_other(other);
    launch(mirror<true>, dim3(1), kThreads, kThreads * sizeof(int32_t), of_other, there, there);
    cudaStreamSynchronize(other);
  };
  EXPECT_DEATH(touch(), "use-after-poison");
#endif
  cudaStreamDestroy(other);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

#if defined(__SANITIZE_ADDRESS__)
void beyond_the_end(int32_t* to) { to[threadIdx.x + 1] = 1; }
void beyond_shared_memory() { reinterpret_cast<int32_t*>(shared_memory())[threadIdx.x + 1] = 1; }
void beyond_a_local_array(int32_t* to) {
  int32_t local[4] = {};
  local[threadIdx.x % 5] = 1;
  to[threadIdx.x] = local[threadIdx.x % 3];
}

TEST_F(EmulationDeathTest, AddressSanitizerDetectsInvalidAccessesOfKernelsAndHost) {
  int32_t* there = array();
  EXPECT_DEATH(run(beyond_the_end, there), "heap-buffer-overflow");
  EXPECT_DEATH(run(beyond_shared_memory), "heap-buffer-overflow");
  // UBSan, where it is there as well, says so first.
  EXPECT_DEATH(run(beyond_a_local_array, there), "stack-buffer-overflow|index 4 out of bounds");
  EXPECT_DEATH(there[3] = 1, "use-after-poison");
}
#endif

}  // namespace
}  // namespace cairn::kernels::cuda
