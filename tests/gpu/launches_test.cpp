// Kernels do the same whether they are launched one by one, queued, or run as a graph.
#include "kernels/cuda/runtime/launch_queue.h"

#include "gpu/model_lab.h"
#if defined(CAIRN_EMULATED_GPU)
#include "emulation/cuda/queue.h"
#endif
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/memory.h"

namespace cairn::gpu {
namespace {

using kernels::cuda::LaunchQueue;

constexpr int64_t kNumbers = 1'000;

class GpuLaunches : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    stream_ = kernels::cuda::open_device(0).value();
    for (kernels::Buffer& array : arrays_) array = kernels::cuda::allocate(*stream_, kNumbers * 4).value();
  }
  /// A step with that many kernels: x *= factor, then x += y repeatedly.
  void step(float factor, size_t kernels) {
    LaunchQueue& launches = stream_->launches();
    launches.gather();
    kernels::cuda::scale_and_softcap(launches, arrays_[0].floats(), kNumbers, factor, 0);
    for (size_t i = 1; i < kernels; ++i) {
      kernels::cuda::add(launches, arrays_[0].floats(), arrays_[1].floats(), kNumbers, static_cast<float>(i));
    }
  }
  void put(const kernels::Buffer& to, float value) {
    const std::vector<float> values(kNumbers, value);
    cudaMemcpyAsync(to.data(), values.data(), kNumbers * 4, cudaMemcpyHostToDevice, stream_->get());
    ASSERT_TRUE(stream_->finish().has_value());
  }
  std::vector<float> get(const kernels::Buffer& from) {
    std::vector<float> values(kNumbers);
    cudaMemcpyAsync(values.data(), from.data(), kNumbers * 4, cudaMemcpyDeviceToHost, stream_->get());
    EXPECT_TRUE(stream_->finish().has_value());
    return values;
  }
  int64_t graph_launches() { return stream_->launches().graph_launches(); }
  /// Runs steps one after the other, which begin with 1 and add 2, and checks the results.
  void check(const std::vector<float>& factors, size_t kernels) {
    put(arrays_[0], 1);
    put(arrays_[1], 2);
    float expected = 1;
    for (const float factor : factors) {
      step(factor, kernels);
      expected *= factor;
      for (size_t i = 1; i < kernels; ++i) expected += 2 * static_cast<float>(i);
      ASSERT_EQ(get(arrays_[0]), std::vector<float>(kNumbers, expected));
    }
  }

  std::unique_ptr<kernels::cuda::Stream> stream_;
  kernels::Buffer arrays_[2];
};

TEST_F(GpuLaunches, SimilarStepsBecomeAGraph) {
  check({1, 1, 1}, LaunchQueue::kKernelsMin);
  EXPECT_EQ(graph_launches(), 0);
  check({1, 1, 1, 1}, LaunchQueue::kKernelsMin);
  EXPECT_EQ(graph_launches(), 4);
}

TEST_F(GpuLaunches, ArgumentsOfAGraphAreUpdated) {
  check({1, 1, 1, 1, 0.5f, 0.25f, 0.25f, 2}, LaunchQueue::kKernelsMin);
  EXPECT_EQ(graph_launches(), 5);
}

TEST_F(GpuLaunches, StepsWithFewKernelsDoNotBecomeAGraph) {
  check({1, 1, 1, 1, 1, 1}, LaunchQueue::kKernelsMin - 1);
  EXPECT_EQ(graph_launches(), 0);
}

TEST_F(GpuLaunches, StepsOfSeveralKindsHaveSeparateGraphs) {
  for (size_t kind = 0; kind < LaunchQueue::kGraphsMax + 2; ++kind)
    check({1, 1, 1, 1}, LaunchQueue::kKernelsMin + kind);
  EXPECT_EQ(graph_launches(), static_cast<int64_t>(LaunchQueue::kGraphsMax) + 2);
  check({1, 1}, LaunchQueue::kKernelsMin + 5);  // a graph that is kept
  EXPECT_EQ(graph_launches(), static_cast<int64_t>(LaunchQueue::kGraphsMax) + 4);
  check({1, 1}, LaunchQueue::kKernelsMin);  // a graph that was dropped
  EXPECT_EQ(graph_launches(), static_cast<int64_t>(LaunchQueue::kGraphsMax) + 4);
}

TEST_F(GpuLaunches, TheFirstPartOfAStepRunsWhileTheRestIsListed) {
  constexpr size_t kRest = LaunchQueue::kKernelsMin;
  put(arrays_[0], 1);
  put(arrays_[1], 2);
  float expected = 1;
  for (int round = 0; round < 5; ++round) {
    step(1, LaunchQueue::kFirstPart - 1);
    stream_->launched("add");
    const int64_t before = graph_launches();
    kernels::cuda::add(stream_->launches(), arrays_[0].floats(), arrays_[1].floats(), kNumbers, 1);
    stream_->launched("add");
    EXPECT_TRUE(stream_->launches().gathers());
    EXPECT_EQ(graph_launches() - before, round < 3 ? 0 : 1);
    for (size_t i = 0; i < kRest; ++i) {
      kernels::cuda::add(stream_->launches(), arrays_[0].floats(), arrays_[1].floats(), kNumbers, 1);
      stream_->launched("add");
    }
    for (size_t i = 1; i + 1 < LaunchQueue::kFirstPart; ++i) expected += 2 * static_cast<float>(i);
    expected += 2 * static_cast<float>(1 + kRest);
    ASSERT_EQ(get(arrays_[0]), std::vector<float>(kNumbers, expected));
    EXPECT_EQ(graph_launches() - before, round < 3 ? 0 : 2);
  }
}

TEST_F(GpuLaunches, RuntimeCallsRunAfterWaitingLaunches) {
  put(arrays_[0], 1);
  put(arrays_[1], 2);
  step(3, 2);
  cudaMemcpyAsync(arrays_[1].data(), arrays_[0].data(), kNumbers * 4, cudaMemcpyDeviceToDevice, stream_->get());
  EXPECT_EQ(get(arrays_[1]), std::vector<float>(kNumbers, 5));
  // The kernel launched now is enqueued at once.
  kernels::cuda::scale_and_softcap(stream_->launches(), arrays_[1].floats(), kNumbers, 2, 0);
  cudaStreamSynchronize(stream_->ahead());
  EXPECT_EQ(get(arrays_[1]), std::vector<float>(kNumbers, 10));
}

#if defined(CAIRN_EMULATED_GPU)
// Only the emulated GPU counts graphs; GpuModel.SameBytes* shows that logits are the same.
TEST_F(GpuLaunches, DecodeStepsBecomeGraphs) {
  constexpr int kTokens = 12, kAlike = kTokens - LaunchQueue::kAlikeMin;
  // Every fourth token of deepseek4 completes a row of four: those steps have other kernels, and are too rare for a
  // graph. Steps with many kernels are two graphs.
  for (const auto& [name, graphs] : {std::pair{"llama", kAlike},
                                     {"qwen3moe", kAlike},
                                     {"gemma3", 2 * kAlike},
                                     {"deepseek2", 2 * kAlike},
                                     {"deepseek4", 2 * (kAlike - kTokens / 4)}}) {
    SCOPED_TRACE(name);
    const auto file = gguf::Reader::open(model_path(name)).value();
    Model model(file, gpu(), 256);
    TestSequence sequence(model);
    sequence.steps(std::vector<TokenId>(20, TokenId{7}));
    const int64_t before = kernels::cuda::emulated::graphs_launched();
    for (int32_t i = 0; i < kTokens; ++i) {
      const TokenId token{i};
      sequence.step({&token, 1});
    }
    EXPECT_EQ(kernels::cuda::emulated::graphs_launched() - before, graphs);
  }
}
#endif

}  // namespace
}  // namespace cairn::gpu
