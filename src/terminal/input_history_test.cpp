#include "terminal/input_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace cairn::terminal {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class InputHistoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "cairn-history-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    file_ = folder_ / "state" / "cairn" / "history";
  }
  void TearDown() override { fs::remove_all(folder_); }

  InputHistory open() const {
    auto history = InputHistory::open(file_);
    EXPECT_TRUE(history) << history.error().text();
    return history ? std::move(*history) : InputHistory();
  }

  fs::path folder_;
  fs::path file_;
};

TEST_F(InputHistoryTest, IsKeptBetweenRunsForItsOwnerAlone) {
  {
    InputHistory history = open();
    for (const char* message : {"one", "two\nlines", "back\\slash\\n", "back\\slash\\n", "日本語"})
      EXPECT_TRUE(history.add(message));
  }
  EXPECT_THAT(open().entries(), ElementsAre("one", "two\nlines", "back\\slash\\n", "日本語"));
  struct stat status{};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  fs::permissions(file_, fs::perms::all);
  open();
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(InputHistoryTest, IsBounded) {
  {
    InputHistory history = open();
    for (size_t i = 0; i < kHistoryEntriesMax + 7; ++i) EXPECT_TRUE(history.add("message " + std::to_string(i)));
    EXPECT_TRUE(history.add(std::string(kHistoryEntryBytesMax + 1, 'x')));
    EXPECT_EQ(history.entries().size(), kHistoryEntriesMax + 8);
  }
  const InputHistory history = open();
  ASSERT_EQ(history.entries().size(), kHistoryEntriesMax);
  EXPECT_EQ(history.entries().front(), "message 7");
  EXPECT_EQ(history.entries().back(), "message " + std::to_string(kHistoryEntriesMax + 6));
  std::ifstream file(file_);
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(file), {}, '\n'), kHistoryEntriesMax);
  struct stat status{};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(InputHistoryTest, TellsWhereItCannotBeKept) {
  std::ofstream(folder_ / "file").put('x');
  EXPECT_FALSE(InputHistory::open(folder_ / "file" / "history"));
  EXPECT_FALSE(InputHistory::open(folder_));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(InputHistory::open(folder_ / "pipe"));
  InputHistory nowhere;
  EXPECT_TRUE(nowhere.add("one"));
  EXPECT_THAT(nowhere.entries(), ElementsAre("one"));
}

}  // namespace
}  // namespace cairn::terminal
