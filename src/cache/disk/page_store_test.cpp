#include "cache/disk/page_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>

#include "base/log.h"
#include "cache/disk/testing/memory_files.h"

namespace cairn::cache::disk {
namespace {

constexpr int64_t kSlotBytes = 256;
constexpr int64_t kDay = 20'000 * kSecondsPerDay;
const std::string kFolder = "/kv";

std::vector<std::byte> bytes_of_page(uint64_t number, int64_t size = kSlotBytes) {
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  std::mt19937_64 random(number);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// The page of a chain: [chain, depth], depth from 1.
PageDigest digest_at(uint64_t chain, int32_t depth) {
  return {chain, static_cast<uint64_t>(depth) * 0x9e3779b97f4a7c15};
}

class PageStoreTest : public testing::Test {
 protected:
  /// A process that opens the folder.
  struct Process {
    std::unique_ptr<MemoryFiles> files;
    std::unique_ptr<PageStore> store;
    int32_t space = -1;

    Result<void> write(uint64_t chain, int32_t depth, uint64_t owner = 0) {
      return store->write(
          space, {digest_at(chain, depth), 0},
          {digest_at(chain, depth - 1), owner, (depth - 1) * kernels::kPageTokens, kernels::kPageTokens},
          bytes_of_page(chain * 1000 + static_cast<uint64_t>(depth)));
    }
    bool has(uint64_t chain, int32_t depth) const { return store->has(space, {digest_at(chain, depth), 0}); }
    /// Whether the page is there with the right bytes; a page with wrong ones never is.
    bool reads(uint64_t chain, int32_t depth) {
      std::vector<std::byte> bytes(kSlotBytes);
      if (!store->read(space, {digest_at(chain, depth), 0}, bytes).has_value()) return false;
      EXPECT_EQ(bytes, bytes_of_page(chain * 1000 + static_cast<uint64_t>(depth)));
      return true;
    }
  };

  Result<Process> begin(std::string_view identity = "a model", StoreOptions options = {}) {
    if (!options.unix_s) options.unix_s = [this] { return now_; };
    Process process;
    process.files = std::make_unique<MemoryFiles>(disk_);
    prepare_(*process.files);
    CAIRN_TRY(process.store, PageStore::open(*process.files, kFolder, options));
    CAIRN_TRY(process.space, process.store->use_space(identity, R"({"model":"m"})", slot_bytes_));
    return process;
  }
  Process started(std::string_view identity = "a model", StoreOptions options = {}) {
    auto process = begin(identity, std::move(options));
    EXPECT_TRUE(process.has_value()) << process.error().text();
    return std::move(*process);
  }
  /// A process that has written a chain of pages and is gone.
  void write_chain(uint64_t chain, int32_t pages, uint64_t owner = 0) {
    Process process = started();
    for (int32_t depth = 1; depth <= pages; ++depth) ASSERT_TRUE(process.write(chain, depth, owner).has_value());
    ASSERT_TRUE(process.store->commit().has_value());
  }
  MemoryDisk::Content& file(std::string_view name) {
    for (auto& [path, content] : disk_.files) {
      if (path.ends_with(name)) return *content;
    }
    ADD_FAILURE() << "no file " << name;
    return *disk_.files.begin()->second;
  }
  static void flip(MemoryDisk::Content& content, size_t at) { content.bytes.at(at) ^= std::byte{1}; }

  void SetUp() override { set_log_level(LogLevel::kOff); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }

  MemoryDisk disk_;
  int64_t now_ = kDay;
  std::vector<int64_t> slot_bytes_ = {kSlotBytes};
  std::function<void(MemoryFiles&)> prepare_ = [](MemoryFiles&) {};
};

TEST_F(PageStoreTest, PagesAreFoundByTheNextProcess) {
  write_chain(1, 5);
  Process next = started();
  for (int32_t depth = 1; depth <= 5; ++depth) EXPECT_TRUE(next.reads(1, depth)) << depth;
  EXPECT_FALSE(next.has(1, 6));
  EXPECT_FALSE(next.has(2, 1));
  EXPECT_EQ(next.store->counts().damaged, 0);
  EXPECT_EQ(next.store->counts().bytes_today, 5 * kSlotBytes);
}

TEST_F(PageStoreTest, APageIsFoundOnlyOnceItIsDurable) {
  Process process = started();
  ASSERT_TRUE(process.write(1, 1).has_value());
  EXPECT_FALSE(process.has(1, 1));
  ASSERT_TRUE(process.store->commit().has_value());
  EXPECT_TRUE(process.reads(1, 1));
  const int64_t before = process.store->counts().bytes_written;
  ASSERT_TRUE(process.write(1, 1).has_value());
  EXPECT_EQ(process.store->counts().bytes_written, before) << "a page is never written twice";
}

TEST_F(PageStoreTest, WhatDecidesAboutBytesParts) {
  write_chain(1, 1);
  EXPECT_FALSE(started("another model").has(1, 1));
  EXPECT_TRUE(started().has(1, 1));
  slot_bytes_ = {kSlotBytes, kSlotBytes};
  const Process other = started("two groups");
  EXPECT_FALSE(other.has(1, 1));
}

TEST_F(PageStoreTest, AnotherSecretFindsNothingAndBeginsAnew) {
  write_chain(1, 1);
  flip(file("/secret"), 7);
  Process process = started();
  EXPECT_FALSE(process.has(1, 1));
  ASSERT_TRUE(process.write(1, 1).has_value());
  ASSERT_TRUE(process.store->commit().has_value());
  EXPECT_TRUE(process.reads(1, 1));
}

TEST_F(PageStoreTest, ASpoiltPageIsForgottenForGood) {
  write_chain(1, 3);
  flip(file("/pages-00"), kSlotBytes + 17);
  {
    Process process = started();
    EXPECT_TRUE(process.reads(1, 1));
    EXPECT_FALSE(process.reads(1, 2));
    EXPECT_TRUE(process.reads(1, 3));
    EXPECT_FALSE(process.has(1, 2));
    ASSERT_TRUE(process.store->commit().has_value());
  }
  Process next = started();
  EXPECT_FALSE(next.has(1, 2));
  EXPECT_EQ(next.store->counts().damaged, 0);
  ASSERT_TRUE(next.write(1, 2).has_value());
  ASSERT_TRUE(next.store->commit().has_value());
  EXPECT_TRUE(next.reads(1, 2));
}

TEST_F(PageStoreTest, AnyFlippedByteOfTheIndexLosesOneEntryAndIsToldOnce) {
  write_chain(1, 3);
  const std::vector<std::byte> index = file("/index").bytes;
  ASSERT_EQ(std::ssize(index), kHeaderBytes + 3 * kEntryBytes);
  for (int64_t at = 0; at < kEntryBytes; ++at) {
    file("/index").bytes = index;
    flip(file("/index"), static_cast<size_t>(kHeaderBytes + kEntryBytes + at));
    {
      Process process = started();
      EXPECT_TRUE(process.reads(1, 1) && process.reads(1, 3)) << at;
      EXPECT_FALSE(process.has(1, 2)) << at;
      EXPECT_EQ(process.store->counts().damaged, 1) << at;
    }
    EXPECT_EQ(started().store->counts().damaged, 0) << at;
    // The page's slot went with its entry.
    file("/pages-00").bytes.clear();
    for (const uint64_t depth : {1, 2, 3}) {
      const auto bytes = bytes_of_page(1000 + depth);
      file("/pages-00").bytes.insert(file("/pages-00").bytes.end(), bytes.begin(), bytes.end());
    }
  }
}

TEST_F(PageStoreTest, ASpoiltHeaderOrAnotherVersionBeginsTheSpaceAnew) {
  for (const size_t at : {0, 8, 12, 40, 511}) {
    write_chain(1, 1);
    flip(file("/index"), at);
    Process process = started();
    EXPECT_FALSE(process.has(1, 1)) << at;
    EXPECT_EQ(process.store->counts().damaged, 1);
    ASSERT_TRUE(process.write(1, 1).has_value());
    ASSERT_TRUE(process.store->commit().has_value());
    EXPECT_TRUE(process.reads(1, 1));
  }
}

TEST_F(PageStoreTest, CutFilesAreMisses) {
  write_chain(1, 4);
  file("/index").bytes.resize(kHeaderBytes + 3 * kEntryBytes + 5);
  file("/pages-00").bytes.resize(2 * kSlotBytes + 100);
  Process process = started();
  EXPECT_TRUE(process.reads(1, 1) && process.reads(1, 2));
  EXPECT_FALSE(process.has(1, 3) || process.has(1, 4));
  ASSERT_TRUE(process.write(1, 3).has_value());
  ASSERT_TRUE(process.store->commit().has_value());
  EXPECT_TRUE(process.reads(1, 3));
}

TEST_F(PageStoreTest, AFullDiskEndsWritingAndNotReading) {
  write_chain(1, 2);
  prepare_ = [](MemoryFiles& files) { files.bytes_left = kSlotBytes / 2; };
  Process process = started();
  EXPECT_FALSE(process.write(1, 3).has_value());
  EXPECT_FALSE(process.store->counts().writing);
  EXPECT_FALSE(process.store->accepts());
  EXPECT_FALSE(process.store->commit().has_value());
  EXPECT_TRUE(process.reads(1, 1) && process.reads(1, 2));
}

TEST_F(PageStoreTest, ADiskThatCannotBeReadIsAMiss) {
  write_chain(1, 2);
  Process process = started();
  process.files->cannot_read = true;
  EXPECT_FALSE(process.reads(1, 1));
  process.files->cannot_read = false;
  EXPECT_TRUE(process.reads(1, 2));
}

TEST_F(PageStoreTest, AReadOnlyFolderAndASecondProcessAreRefusedInWords) {
  Process first = started();
  const auto second = begin();
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_NE(second.error().text().find("another process"), std::string::npos);
  first = {};
  prepare_ = [](MemoryFiles& files) { files.read_only = true; };
  const auto read_only = begin();
  ASSERT_FALSE(read_only.has_value());
  EXPECT_EQ(read_only.error().code, Code::kIo);
}

TEST_F(PageStoreTest, AFolderOfOthersIsLeftAlone) {
  disk_.folders.insert(kFolder);
  disk_.files[kFolder + "/letter.txt"] = std::make_shared<MemoryDisk::Content>();
  const auto refused = begin();
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().text().find("other files"), std::string::npos);
}

TEST_F(PageStoreTest, ADayHasItsBytesAndAClockThatGoesBackGrantsNone) {
  Process process = started("a model", {.daily_bytes_max = 3 * kSlotBytes});
  for (const int32_t depth : {1, 2, 3}) ASSERT_TRUE(process.write(1, depth).has_value());
  EXPECT_FALSE(process.write(1, 4).has_value());
  EXPECT_FALSE(process.store->accepts());
  EXPECT_TRUE(process.store->counts().writing);
  now_ -= 3 * kSecondsPerDay;
  EXPECT_FALSE(process.write(1, 4).has_value());
  now_ += 4 * kSecondsPerDay;
  EXPECT_TRUE(process.write(1, 4).has_value());
  ASSERT_TRUE(process.store->commit().has_value());
  now_ -= 20 * kSecondsPerDay;
  process = {};
  EXPECT_TRUE(started().reads(1, 4));
}

TEST_F(PageStoreTest, AClockThatGoesBackLosesNoPage) {
  write_chain(1, 3);
  now_ -= 30 * kSecondsPerDay;
  write_chain(2, 3);
  now_ -= 30 * kSecondsPerDay;
  Process process = started();
  for (const uint64_t chain : {1, 2}) EXPECT_TRUE(process.reads(chain, 3)) << chain;
}

TEST_F(PageStoreTest, WhatAnOwnerNamesIsFoundByItAloneAndGoesWithItsPages) {
  const std::vector<std::byte> bytes = bytes_of_page(7, 100);
  {
    Process process = started();
    ASSERT_TRUE(process.store->put_named(process.space, 1, "../talk", 5, bytes_of_page(8)).has_value());
    ASSERT_TRUE(process.store->put_named(process.space, 1, "../talk", 6, bytes).has_value());
    ASSERT_TRUE(process.store->put_named(process.space, 2, "theirs", 9, bytes).has_value());
    ASSERT_TRUE(process.write(1, 1).has_value());
    ASSERT_TRUE(process.store->commit().has_value());
  }
  {
    Process process = started();
    const auto named = process.store->get_named(process.space, 1, "../talk");
    ASSERT_TRUE(named.has_value()) << named.error().text();
    EXPECT_EQ(named->salt, 6u);
    EXPECT_EQ(named->bytes, bytes);
    EXPECT_EQ(process.store->get_named(process.space, 2, "../talk").error().code, Code::kNotFound);
  }
  for (auto& [path, content] : disk_.files) {
    EXPECT_EQ(path.find("talk"), std::string::npos) << path;
  }
  Process process = started();
  const uint64_t owners[] = {1};
  ASSERT_TRUE(process.store->erase(owners).has_value());
  EXPECT_EQ(process.store->get_named(process.space, 1, "../talk").error().code, Code::kNotFound);
  EXPECT_TRUE(process.store->get_named(process.space, 2, "theirs").has_value());
  for (auto& [path, content] : disk_.files) {
    if (path.find("/names/") != std::string::npos) content->bytes[content->bytes.size() / 2] ^= std::byte{1};
  }
  EXPECT_EQ(process.store->get_named(process.space, 2, "theirs").error().code, Code::kCorruptFile);
}

TEST_F(PageStoreTest, AChainShrinksFromItsEndAndWhatWasUsedStays) {
  for (const bool can_punch : {true, false}) {
    disk_ = {};
    prepare_ = [=](MemoryFiles& files) { files.can_punch = can_punch; };
    Process process = started("a model", {.bytes_max = 8 * kSlotBytes});
    for (int32_t depth = 1; depth <= 4; ++depth) ASSERT_TRUE(process.write(1, depth).has_value());
    for (int32_t depth = 1; depth <= 4; ++depth) ASSERT_TRUE(process.write(2, depth).has_value());
    ASSERT_TRUE(process.store->commit().has_value());
    const std::vector<PageDigest> used = {digest_at(1, 2), digest_at(1, 1)};
    process.store->touch(process.space, used);
    for (int32_t depth = 1; depth <= 5; ++depth) {
      ASSERT_TRUE(process.write(3, depth).has_value());
      ASSERT_TRUE(process.store->commit().has_value());
    }
    EXPECT_TRUE(process.has(1, 1) && process.has(1, 2));
    EXPECT_FALSE(process.has(1, 3) || process.has(1, 4));
    EXPECT_TRUE(process.has(2, 1));
    EXPECT_FALSE(process.has(2, 2) || process.has(2, 3) || process.has(2, 4));
    EXPECT_TRUE(process.reads(3, 5));
    EXPECT_LE(process.store->counts().bytes, 8 * kSlotBytes);
    EXPECT_EQ(process.store->counts().evicted, 5);
    // The next process sees the same, and evicts in the same order.
    process = {};
    Process next = started("a model", {.bytes_max = 8 * kSlotBytes});
    EXPECT_EQ(next.store->counts().pages, 8);
    ASSERT_TRUE(next.write(3, 6).has_value());
    EXPECT_FALSE(next.has(2, 1));
    EXPECT_TRUE(next.has(1, 1));
  }
}

TEST_F(PageStoreTest, WhatIsFoundOftenOutlivesWhatWasUsedLater) {
  const auto evicts = [this](int64_t days_between) {
    Process process = started("a model", {.bytes_max = 4 * kSlotBytes});
    const auto write = [&](uint64_t chain) {
      EXPECT_TRUE(process.write(chain, 1).has_value());
      EXPECT_TRUE(process.store->commit().has_value());
    };
    const auto find = [&](uint64_t chain) {
      const PageDigest page = digest_at(chain, 1);
      process.store->touch(process.space, {&page, 1});
    };
    write(1);
    for (int i = 0; i < 3; ++i) find(1);
    now_ += days_between * kSecondsPerDay;
    for (const uint64_t chain : {2, 3, 4}) write(chain);
    find(2);
    find(3);
    find(4);
    write(5);  // one of four has to go
    for (const uint64_t chain : {1, 2, 3, 4})
      if (!process.has(chain, 1)) return chain;
    return uint64_t{0};
  };
  EXPECT_EQ(evicts(0), 2u) << "three hits of today count more than one";
  disk_ = {};
  EXPECT_EQ(evicts(1), 2u) << "and so do those of yesterday, which are one and a half";
  disk_ = {};
  EXPECT_EQ(evicts(2), 1u) << "those of the day before are less than one";
}

TEST_F(PageStoreTest, HitsAreKnownToTheNextProcess) {
  {
    Process process = started("a model", {.bytes_max = 3 * kSlotBytes});
    for (const uint64_t chain : {1, 2, 3}) ASSERT_TRUE(process.write(chain, 1).has_value());
    ASSERT_TRUE(process.store->commit().has_value());
    const PageDigest page = digest_at(1, 1);
    for (int i = 0; i < 2; ++i) process.store->touch(process.space, {&page, 1});
    const PageDigest other = digest_at(2, 1), last = digest_at(3, 1);
    process.store->touch(process.space, {&other, 1});
    process.store->touch(process.space, {&last, 1});
    ASSERT_TRUE(process.store->commit().has_value());
  }
  Process next = started("a model", {.bytes_max = 3 * kSlotBytes});
  ASSERT_TRUE(next.write(4, 1).has_value());
  ASSERT_TRUE(next.store->commit().has_value());
  EXPECT_TRUE(next.has(1, 1)) << "used first, but twice";
  EXPECT_FALSE(next.has(2, 1));
}

TEST_F(PageStoreTest, PagesOfOtherModelsMakeRoom) {
  write_chain(1, 6);
  Process process = started("another model", {.bytes_max = 6 * kSlotBytes});
  for (int32_t depth = 1; depth <= 4; ++depth) ASSERT_TRUE(process.write(1, depth).has_value());
  ASSERT_TRUE(process.store->commit().has_value());
  EXPECT_EQ(process.store->counts().pages, 6);
  EXPECT_LE(process.store->counts().bytes, 6 * kSlotBytes);
  process = {};
  const Process first = started();
  EXPECT_TRUE(first.has(1, 1) && first.has(1, 2));
  EXPECT_FALSE(first.has(1, 3));
}

TEST_F(PageStoreTest, AnOwnersPagesAreDeletedWithTheirBytes) {
  write_chain(1, 2, 77);
  write_chain(2, 2, 78);
  {
    Process process = started();
    const uint64_t owners[] = {77};
    EXPECT_EQ(process.store->erase(owners).value(), 2);
    EXPECT_FALSE(process.has(1, 1));
  }
  Process next = started();
  EXPECT_FALSE(next.has(1, 1) || next.has(1, 2));
  EXPECT_TRUE(next.reads(2, 1) && next.reads(2, 2));
  const std::vector<std::byte>& left = file("/pages-00").bytes;
  for (const uint64_t depth : {1, 2}) {
    const std::vector<std::byte> gone = bytes_of_page(1000 + depth);
    EXPECT_EQ(std::search(left.begin(), left.end(), gone.begin(), gone.begin() + 16), left.end());
  }
}

TEST_F(PageStoreTest, VerifyFindsWhatIsWrong) {
  write_chain(1, 4);
  flip(file("/pages-00"), 2 * kSlotBytes);
  EXPECT_EQ(started().store->verify(), 1);
  EXPECT_EQ(started().store->verify(), 0);
}

TEST_F(PageStoreTest, AnIndexStaysShort) {
  Process process = started("a model", {.bytes_max = 4 * kSlotBytes});
  for (int32_t depth = 1; depth <= kDeadEntriesMax / 2 + 1'000; ++depth) {
    ASSERT_TRUE(process.write(1, depth).has_value());
    if (depth % 2 == 0) {
      ASSERT_TRUE(process.store->commit().has_value());
    }
  }
  ASSERT_TRUE(process.store->commit().has_value());
  EXPECT_LT(std::ssize(file("/index").bytes), kHeaderBytes + kEntryBytes * (kDeadEntriesMax + 100));
  EXPECT_EQ(process.store->counts().pages, 4);
}

TEST_F(PageStoreTest, WhateverStopsAProcessTheNextFindsWhatWasDurableAndNothingWrong) {
  std::mt19937_64 random(44);
  int64_t found = 0, lost = 0, points = 0;
  for (; points < 1'000; ++points) {
    disk_ = {};
    const bool power = points % 2 == 0;
    std::vector<std::pair<uint64_t, int32_t>> durable;
    std::map<uint64_t, int32_t> depths;
    const auto live = [&](int64_t calls) {
      prepare_ = [=](MemoryFiles& files) { files.calls_left = calls; };
      auto process = begin("a model", {.bytes_max = 40 * kSlotBytes});
      if (!process.has_value()) return;
      for (int step = 0; step < 40; ++step) {
        std::vector<std::pair<uint64_t, int32_t>> batch;
        for (uint64_t i = random() % 4; i > 0; --i) {
          const uint64_t chain = random() % 5;
          const int32_t depth = ++depths[chain];
          if (process->write(chain, depth).has_value()) batch.emplace_back(chain, depth);
        }
        if (random() % 3 == 0 && !durable.empty()) {
          const auto [chain, depth] = durable[random() % durable.size()];
          process->reads(chain, depth);
        }
        if (!process->store->commit().has_value()) return;
        durable.insert(durable.end(), batch.begin(), batch.end());
      }
    };
    live(static_cast<int64_t>(1 + random() % 150));
    if (power) disk_.lose_power(random);
    live(static_cast<int64_t>(1 + random() % 150));
    if (power) disk_.lose_power(random);
    disk_.locks.clear();
    prepare_ = [](MemoryFiles&) {};
    Process last = started("a model", {.bytes_max = 40 * kSlotBytes});
    for (const auto& [chain, depth] : durable) {
      // A page that was evicted may be gone; one that is there has the right bytes.
      (last.reads(chain, depth) ? found : lost) += 1;
    }
    ASSERT_TRUE(last.write(9, 1).has_value());
    ASSERT_TRUE(last.store->commit().has_value());
    EXPECT_TRUE(last.reads(9, 1));
    last = {};
    const Process again = started("a model", {.bytes_max = 40 * kSlotBytes});
    EXPECT_EQ(again.store->counts().damaged, 0) << "point " << points << ": a file fails for ever";
  }
  fmt::print("{} durable pages found, {} evicted or overwritten\n", found, lost);
  EXPECT_GT(found, 10'000);
}

TEST_F(PageStoreTest, WithRoomForAllNoDurablePageIsEverLost) {
  std::mt19937_64 random(45);
  for (int point = 0; point < 300; ++point) {
    disk_ = {};
    std::vector<std::pair<uint64_t, int32_t>> durable;
    prepare_ = [&](MemoryFiles& files) { files.calls_left = static_cast<int64_t>(1 + random() % 120); };
    if (auto process = begin(); process.has_value()) {
      for (int32_t depth = 1; depth < 60; depth += 2) {
        if (!process->write(1, depth).has_value() || !process->write(1, depth + 1).has_value()) break;
        if (!process->store->commit().has_value()) break;
        durable.emplace_back(1, depth);
        durable.emplace_back(1, depth + 1);
      }
    }
    if (point % 2 == 0) disk_.lose_power(random);
    disk_.locks.clear();
    prepare_ = [](MemoryFiles&) {};
    Process next = started();
    for (const auto& [chain, depth] : durable) EXPECT_TRUE(next.reads(chain, depth)) << point << " " << depth;
  }
}

}  // namespace
}  // namespace cairn::cache::disk
