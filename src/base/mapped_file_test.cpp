#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <fstream>

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

}  // namespace
}  // namespace cairn
