#include "cache/disk/disk_worker.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/system/random_id.h"

namespace cairn::cache::disk {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kPageBytes = 4'096;

class DiskWorkerTest : public testing::Test {
 protected:
  DiskWorkerTest() : folder_(testing::TempDir() + "cairn-kv-" + random_id()) {}
  ~DiskWorkerTest() override { std::filesystem::remove_all(folder_); }

  static PageAddress page(uint64_t number) { return {{number, number}, 0}; }
  static std::vector<std::byte> bytes_of(uint64_t number) {
    return std::vector<std::byte>(kPageBytes, static_cast<std::byte>(number));
  }
  std::shared_ptr<DiskWorker> open() {
    auto worker = DiskWorker::open(folder_, {});
    EXPECT_TRUE(worker.has_value()) << worker.error().text();
    const int64_t slots[] = {kPageBytes};
    space_ = (*worker)->store().use_space("a model", "{}", slots).value();
    return std::move(*worker);
  }
  void put(DiskWorker& worker, uint64_t number) {
    worker.put(space_, page(number), {{number - 1, number - 1}, 0, 0, kernels::kPageTokens}, bytes_of(number));
  }

  const std::string folder_;
  int32_t space_ = -1;
};

TEST_F(DiskWorkerTest, WhatWasPutIsDurableAfterItsEndAndIsReadByAnother) {
  {
    const auto worker = open();
    EXPECT_EQ(worker, open()) << "one worker for a folder";
    for (uint64_t number = 1; number <= 50; ++number) {
      EXPECT_TRUE(worker->wants(space_, page(number), kPageBytes));
      put(*worker, number);
    }
    EXPECT_FALSE(worker->wants(space_, page(1), kPageBytes));
  }
  struct stat status{};
  ASSERT_EQ(::stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  ASSERT_EQ(::stat((folder_ + "/secret").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);

  const auto worker = open();
  std::vector<WantedPage> wanted;
  for (uint64_t number = 1; number <= 50; ++number)
    wanted.push_back({page(number), static_cast<int32_t>(number), kPageBytes});
  const auto load = std::make_shared<DiskLoad>(space_, wanted);
  worker->add(load);
  for (int tries = 0; tries < 30'000 && !worker->is_done(*load); ++tries) {
    const auto got = worker->take(*load);
    if (!got) {
      std::this_thread::sleep_for(1ms);
      continue;
    }
    EXPECT_EQ(got->bytes, bytes_of(static_cast<uint64_t>(got->place)));
  }
  EXPECT_TRUE(worker->is_done(*load));
  EXPECT_GT(worker->read_rate(), 0);
}

TEST_F(DiskWorkerTest, ALoadOfWhatIsNotThereFailsAndOneThatIsCancelledEnds) {
  const auto worker = open();
  const auto missing = std::make_shared<DiskLoad>(space_, std::vector<WantedPage>{{page(9), 0, kPageBytes}});
  worker->add(missing);
  for (int tries = 0; tries < 30'000 && !worker->has_failed(*missing); ++tries) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(worker->has_failed(*missing));
  EXPECT_FALSE(worker->take(*missing).has_value());
  put(*worker, 1);
  ASSERT_TRUE(worker->drain(30s));
  const auto cancelled = std::make_shared<DiskLoad>(space_, std::vector<WantedPage>(100, {page(1), 0, kPageBytes}));
  worker->add(cancelled);
  worker->cancel(*cancelled);
  EXPECT_FALSE(worker->take(*cancelled).has_value());
}

TEST_F(DiskWorkerTest, AFullQueueDropsPages) {
  auto files = system_files();
  auto store = PageStore::open(*files, folder_, {}).value();
  const int64_t slots[] = {kWriteQueueBytes / 4};
  const int32_t space = store->use_space("a model", "{}", slots).value();
  DiskWorker worker(std::move(files), std::move(store));  // without threads: nothing is written
  for (uint64_t number = 1; number <= 6; ++number) {
    worker.put(space, page(number), {}, std::vector<std::byte>(kWriteQueueBytes / 4));
  }
  EXPECT_EQ(worker.pages_dropped(), 2);
  EXPECT_FALSE(worker.has_room(1));
  EXPECT_FALSE(worker.wants(space, page(7), 1));
}

}  // namespace
}  // namespace cairn::cache::disk
