#include "base/system/cgroup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace cairn {
namespace {

namespace fs = std::filesystem;

class Cgroup : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("cgroup_" + std::to_string(::getpid()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

TEST_F(Cgroup, WithoutFilesThereIsNoLimit) {
  EXPECT_TRUE(std::isinf(read_cgroup_limits(root_).cores));
  EXPECT_EQ(read_cgroup_limits(root_).memory_bytes_left, std::numeric_limits<int64_t>::max());
}

TEST_F(Cgroup, Version2UsesTheTightestLimitOfTheGroupsAbove) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/a/b/memory.max", "5000\n");
  write("sys/fs/cgroup/a/b/memory.current", "1000\n");
  write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cores, 1.5);
  EXPECT_EQ(read_cgroup_limits(root_).memory_bytes_left, 4000);
  // Pages of files can be reclaimed.
  write("sys/fs/cgroup/a/b/memory.stat", "anon 300\nactive_file 400\ninactive_file 200\nshmem 7\n");
  EXPECT_EQ(read_cgroup_limits(root_).memory_bytes_left, 4600);
  write("sys/fs/cgroup/a/b/memory.current", "9000\n");
  EXPECT_EQ(read_cgroup_limits(root_).memory_bytes_left, 0);
}

TEST_F(Cgroup, WhatVersion1HasForNoLimitIsNone) {
  write("proc/self/cgroup", "5:memory:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n");
  EXPECT_EQ(read_cgroup_limits(root_).memory_bytes_left, std::numeric_limits<int64_t>::max());
}

TEST_F(Cgroup, InAContainerTheTopFolderIsItsGroup) {
  write("proc/self/cgroup", "0::/host/only/path\n");
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  write("sys/fs/cgroup/memory.max", "777\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cores, 2);
  EXPECT_EQ(read_cgroup_limits(root_).memory_bytes_left, 777);
}

TEST_F(Cgroup, Version1ReadsAFolderPerController) {
  write("proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n1:name=systemd:/job\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "10000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "6000\n");
  write("sys/fs/cgroup/memory/job/memory.stat", "active_file 1\ntotal_active_file 1000\ntotal_inactive_file 2000\n");
  EXPECT_TRUE(std::isinf(read_cgroup_limits(root_).cores));
  EXPECT_EQ(read_cgroup_limits(root_).memory_bytes_left, 7000);
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cores, 0.5);
}

}  // namespace
}  // namespace cairn
