#include "loader/device.h"
#include "base/testing/test_data.h"
#include "kernels/cuda/cuda_backend.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace cairn::loader {
namespace {

class DeviceTest : public testing::Test {
 protected:
  /// What choose_device gives, and what it asked about.
  Result<Device> choose(int32_t gpu_layers, Result<bool> on_gpu = true, Result<bool> on_cpu = true) {
    asked_gpu_ = asked_cpu_ = false;
    const auto fits = [&](const Device& device) -> Result<bool> {
      (device.on_gpu() ? asked_gpu_ : asked_cpu_) = true;
      return device.on_gpu() ? on_gpu : on_cpu;
    };
    return choose_device(file_, {.gpu_layers = gpu_layers, .cpu = {.threads = 1, .isa = "generic"}}, fits);
  }

  const gguf::Reader file_ = gguf::Reader::open(std::filesystem::path(test_data()) / "models" / "llama.gguf").value();
  bool asked_gpu_ = false;
  bool asked_cpu_ = false;
};

TEST_F(DeviceTest, WithoutLayersOnTheGpuItIsTheProcessor) {
  const auto device = choose(0);
  ASSERT_TRUE(device.has_value());
  EXPECT_FALSE(device->on_gpu());
  EXPECT_EQ(device->text(), "cpu generic, 1 thread");
  EXPECT_FALSE(asked_gpu_);
  EXPECT_TRUE(asked_cpu_);
}

TEST_F(DeviceTest, WhereTheGpuCannotTakeItTheProcessorDoes) {
  const auto device = choose(kGpuLayersAuto, fail(Code::kOutOfMemory, "too large"));
  ASSERT_TRUE(device.has_value());
  EXPECT_FALSE(device->on_gpu());
  EXPECT_TRUE(asked_cpu_);
  EXPECT_EQ(choose(kGpuLayersAuto, fail(Code::kOutOfMemory, "too large"), fail(Code::kOutOfMemory, "here too"))
                .error()
                .message,
            "here too");
}

TEST_F(DeviceTest, WhatWasAskedForOnTheGpuOrNothing) {
  const int64_t layers = file_.metadata().integer("llama.block_count").value();
  for (const int32_t wanted : {kGpuLayersAll, 99, static_cast<int32_t>(layers), static_cast<int32_t>(layers) - 1}) {
    const auto device = choose(wanted);
    EXPECT_FALSE(asked_cpu_);
    if (kernels::make_cuda_backend({}).has_value()) {
      ASSERT_TRUE(device.has_value()) << device.error().text();
      EXPECT_TRUE(device->on_gpu() && asked_gpu_);
      EXPECT_EQ(choose(wanted, fail(Code::kOutOfMemory, "too large")).error().message, "too large");
      continue;
    }
    ASSERT_FALSE(device.has_value());
    if (!kernels::built_with_cuda()) {
      EXPECT_NE(device.error().message.find("cmake --preset cuda"), std::string::npos) << device.error().message;
    }
  }
}

}  // namespace
}  // namespace cairn::loader
