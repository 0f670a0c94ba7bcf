#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace cairn {
namespace {

TEST(MappedFile, MapsTheBytesAndNamesWhatIsWrong) {
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

TEST(MappedFile, GivesMemoryBackAndReadsAgain) {
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
  // Not this file's memory: nothing happens to it.
  std::vector<std::byte> other(1 << 20, std::byte{7});
  EXPECT_FALSE(file->release(other));
  EXPECT_FALSE(file->release({}));
  EXPECT_TRUE(std::ranges::all_of(other, [](std::byte b) { return b == std::byte{7}; }));
}

}  // namespace
}  // namespace cairn
