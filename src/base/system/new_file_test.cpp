#include "base/system/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

namespace cairn {
namespace {

using testing::HasSubstr;

class NewFileTest : public testing::Test {
 protected:
  NewFileTest() { std::filesystem::create_directory(folder_); }
  ~NewFileTest() override { std::filesystem::remove_all(folder_); }
  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  auto files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator());
  }
  static auto bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("new_file_" + std::to_string(::getpid()));
  const std::filesystem::path path_ = folder_ / "file";
};

TEST_F(NewFileTest, AppearsWhenItIsWhole) {
  std::ofstream(path_) << "old";
  auto file = NewFile::create(path_);
  ASSERT_TRUE(file && file->write(bytes("ne")) && file->write(bytes("w")));
  EXPECT_EQ(text(), "old");
  ASSERT_TRUE(file->finish());
  EXPECT_EQ(text(), "new");
  EXPECT_EQ(files(), 1);
}

TEST_F(NewFileTest, LeavesNothingWhereItFails) {
  ASSERT_TRUE(NewFile::create(path_)->write(bytes("half")));
  EXPECT_EQ(files(), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  {
    auto file = NewFile::create(path_);
    EXPECT_THAT(file->write(bytes("longer")).error().text(), HasSubstr("cannot write"));
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(files(), 0);
}

TEST_F(NewFileTest, ReplacesNothingThatIsNoFile) {
  EXPECT_THAT(NewFile::create(folder_).error().text(), HasSubstr("a folder is there"));
  EXPECT_THAT(NewFile::create("/dev/null").error().text(), HasSubstr("a device or a pipe is there"));
  EXPECT_THAT(NewFile::create(folder_ / "none" / "file").error().text(), HasSubstr("cannot create"));
}

TEST_F(NewFileTest, DeletesWhatKilledProcessesLeft) {
  const std::string name = path_.filename().string();
  for (const char* abandoned : {".1-0.partial", ".4194304-63.partial", ".77.partial"})
    std::ofstream(folder_ / (name + abandoned)) << "half";
  // What others have, and what only looks similar, stays.
  const auto others = {"other.1-0.partial", "file.partial",    "file.1-0.partial.gguf", "file.x-0.partial",
                       "file.1-.partial",   "file.-1.partial", "file.gguf.1-0.partial"};
  for (const char* other : others) std::ofstream(folder_ / other) << "other";
  std::filesystem::create_directory(folder_ / "file.5-0.partial");
  std::filesystem::create_symlink("other.1-0.partial", folder_ / "file.6-0.partial");
  ASSERT_TRUE(NewFile::create(path_)->finish());
  for (const char* other : others) EXPECT_TRUE(std::filesystem::exists(folder_ / other)) << other;
  EXPECT_EQ(files(), std::ssize(others) + 3) << "those, the folder, the link, and the file";
}

TEST_F(NewFileTest, DeletesNothingThatIsBeingWritten) {
  auto first = NewFile::create(path_);
  ASSERT_TRUE(first && first->write(bytes("first")));
  auto second = NewFile::create(path_);
  ASSERT_TRUE(second && second->write(bytes("second")));
  EXPECT_EQ(files(), 2);
  ASSERT_TRUE(second->finish());
  ASSERT_TRUE(first->finish());
  EXPECT_EQ(text(), "first");
  EXPECT_EQ(files(), 1);
}

TEST_F(NewFileTest, AFileThatIsSyncedHasNoNameYet) {
  auto file = NewFile::create(path_);
  ASSERT_TRUE(file && file->write(bytes("whole")) && file->sync());
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(file->finish());
  EXPECT_EQ(text(), "whole");
}

TEST_F(NewFileTest, WhatWasNotWrittenIsZeros) {
  auto file = NewFile::create(path_);
  ASSERT_TRUE(file && file->write(bytes("a")) && file->resize(3) && file->finish());
  EXPECT_EQ(text(), std::string("a\0\0", 3));
}

}  // namespace
}  // namespace cairn
