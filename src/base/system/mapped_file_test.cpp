#include "base/system/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace cairn {
namespace {

TEST(MappedFile, MapsTheBytesOrNamesTheError) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "mapped_file_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "some") << "hello";
  std::ofstream(folder / "empty");

  auto some = MappedFile::open(folder / "some");
  ASSERT_TRUE(some.has_value());
  ASSERT_EQ(some->bytes().size(), 5u);
  EXPECT_EQ(static_cast<char>(some->bytes()[4]), 'o');

  MappedFile moved = std::move(*some);
  EXPECT_EQ(moved.bytes().size(), 5u);

  EXPECT_TRUE(MappedFile::open(folder / "empty")->bytes().empty());
  EXPECT_EQ(MappedFile::open(folder / "none").error().code, Code::kNotFound);
  const auto directory = MappedFile::open(folder);
  EXPECT_EQ(directory.error().code, Code::kIo);
  EXPECT_NE(directory.error().message.find("not a regular file"), std::string::npos);
}

TEST(MappedFile, ReleasedMemoryIsReadFromTheFileAgain) {
  const auto path = std::filesystem::path(testing::TempDir()) / "mapped_file_release";
  constexpr size_t kBytes = size_t{8} << 20;
  std::ofstream(path) << std::string(kBytes, 'x');
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.has_value());
  const auto all_x = [&] {
    return std::ranges::all_of(file->bytes(), [](std::byte b) { return b == std::byte{'x'}; });
  };
  const auto pages_here = [&] {
    std::ifstream statm("/proc/self/statm");
    int64_t total = 0, resident = 0;
    statm >> total >> resident;
    return resident;
  };
  EXPECT_TRUE(all_x());
  const int64_t before = pages_here();
  EXPECT_TRUE(file->release(file->bytes().subspan(100, kBytes - 200)));
  EXPECT_LT(pages_here(), before - static_cast<int64_t>(kBytes) / 4096 / 2);
  EXPECT_TRUE(all_x());
  // Memory that is not this file's is left alone.
  std::vector<std::byte> other(1 << 20, std::byte{7});
  EXPECT_FALSE(file->release(other));
  EXPECT_FALSE(file->release({}));
  EXPECT_TRUE(std::ranges::all_of(other, [](std::byte b) { return b == std::byte{7}; }));
}

TEST(MappedFile, WarmBytesAreMappedAlready) {
  const auto path = std::filesystem::path(testing::TempDir()) / "mapped_file_warm";
  constexpr size_t kBytes = size_t{64} << 20, kPage = 4'096;
  std::ofstream(path) << std::string(kBytes, 'x');
  const auto faults_of_reading = [&](bool warm) {
    const auto file = MappedFile::open(path);
    if (warm) {
      EXPECT_TRUE(file->warm(file->bytes().subspan(100)));
    }
    const auto faults = [] {
      rusage usage{};
      ::getrusage(RUSAGE_THREAD, &usage);
      return usage.ru_minflt + usage.ru_majflt;
    };
    const auto before = faults();
    size_t read = 0;
    for (size_t at = 0; at < kBytes; at += kPage) read += file->bytes()[at] == std::byte{'x'} ? 1 : 0;
    EXPECT_EQ(read, kBytes / kPage);
    return faults() - before;
  };
  const auto cold = faults_of_reading(false), warm = faults_of_reading(true);
  EXPECT_GE(cold, 30);  // the kernel maps some pages around each that is read, two megabytes at most
  EXPECT_LE(warm, 2);
  std::filesystem::remove(path);
}

TEST(MappedFile, WarmsOnlyWhatIsItsOwn) {
  const auto path = std::filesystem::path(testing::TempDir()) / "mapped_file_warm_own";
  std::ofstream(path) << "hello";
  const auto file = MappedFile::open(path);
  const std::vector<std::byte> other(64);
  EXPECT_TRUE(file->warm(file->bytes()));
  EXPECT_FALSE(file->warm(other));
  EXPECT_FALSE(file->warm({}));
  std::filesystem::remove(path);
}

// A mapped file of three pages, which is cut to one of them afterwards.
class CutFile : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(path_) << std::string(3 * kPage, 'x');
    auto opened = MappedFile::open(path_);
    ASSERT_TRUE(opened.has_value());
    file_.emplace(std::move(*opened));
  }
  void cut() const { std::filesystem::resize_file(path_, kPage); }
  static constexpr size_t kPage = 65'536;  // a multiple of any machine's page size
  const std::filesystem::path path_ = std::filesystem::path(testing::TempDir()) / "mapped_file_cut";
  std::optional<MappedFile> file_;
};

TEST_F(CutFile, WithSurviveCutsMissingBytesAreZerosAndReported) {
  file_->survive_cuts();
  MappedFile moved = std::move(*file_);
  EXPECT_FALSE(moved.was_rewritten());
  cut();
  EXPECT_TRUE(moved.was_rewritten());
  EXPECT_EQ(moved.bytes()[kPage - 1], std::byte{'x'});
  EXPECT_FALSE(moved.was_cut());
  EXPECT_EQ(moved.bytes()[2 * kPage], std::byte{0});
  EXPECT_TRUE(moved.was_cut());
  EXPECT_EQ(moved.bytes()[3 * kPage - 1], std::byte{0});
  EXPECT_EQ(moved.bytes()[kPage], std::byte{0});
  EXPECT_EQ(moved.bytes()[0], std::byte{'x'});
  // The mapping of another file is not affected.
  const auto again = MappedFile::open(path_);
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->was_cut());
  EXPECT_FALSE(again->was_rewritten());
}

TEST_F(CutFile, WithoutSurviveCutsItEndsTheProgramWithTheFilesName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        cut();
        std::exit(file_->bytes()[2 * kPage] == std::byte{'x'} ? 3 : 4);
      },
      testing::ExitedWithCode(1), "mapped_file_cut: the file was cut short");
}

TEST_F(CutFile, AReplacedOrDeletedFileKeepsItsBytes) {
  const auto other = path_.string() + "_other";
  std::ofstream(other) << "new";
  std::filesystem::rename(other, path_);
  EXPECT_FALSE(file_->was_rewritten());
  std::filesystem::remove(path_);
  EXPECT_FALSE(file_->was_rewritten());
  EXPECT_EQ(file_->bytes()[2 * kPage], std::byte{'x'});
}

TEST(MappedFile, APipeIsRefusedAndNotWaitedFor) {
  const auto path = std::filesystem::path(testing::TempDir()) / "mapped_file_pipe";
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto opened = MappedFile::open(path);
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().message.find("not a regular file"), std::string::npos);
  EXPECT_FALSE(MappedFile::open("/dev/zero").has_value());
}

}  // namespace
}  // namespace cairn
