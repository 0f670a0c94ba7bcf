#include "base/text/text_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace cairn {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace std::string_literals;

std::string text_of(const std::string& bytes) { return *text_of_bytes(bytes, "x"); }
std::string error_of(const std::string& bytes) { return text_of_bytes(bytes, "x").error().text(); }

class TextFile : public testing::Test {
 protected:
  TextFile() { std::filesystem::create_directory(folder_); }
  ~TextFile() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& bytes) {
    std::ofstream(folder_ / "text", std::ios::binary) << bytes;
    return folder_ / "text";
  }
  std::string error(const std::string& path, size_t bytes_max = kTextFileBytesMax) {
    return read_text_file(path, "--flag", bytes_max).error().text();
  }
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("text_file_" + std::to_string(::getpid()));
};

/// The lines of a pipe that holds the parts, each written once the one before has been asked for, and "!" with an
/// error.
std::vector<std::string> lines_of(std::vector<std::string> parts) {
  int ends[2] = {};
  EXPECT_EQ(::pipe(ends), 0);
  std::thread writer([&] {
    for (const std::string& part : parts) {
      EXPECT_EQ(::write(ends[1], part.data(), part.size()), static_cast<ssize_t>(part.size()));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::close(ends[1]);
  });
  std::vector<std::string> lines;
  LineInput input(ends[0]);
  while (true) {
    auto line = input.next();
    if (!line) lines.push_back("!" + line.error().text());
    if (!line || !*line) break;
    lines.push_back(*std::move(*line));
  }
  writer.join();
  ::close(ends[0]);
  return lines;
}

TEST(LineInput, LinesComeAsTheyAreWrittenAndTheLastNeedsNoEnd) {
  EXPECT_THAT(lines_of({"one\nt", "wo\r\n\n", "caf\xe9\0"s, "\nlast"}),
              testing::ElementsAre("one", "two\r", "", "caf\xe9\0"s, "last"));
  EXPECT_THAT(lines_of({}), testing::IsEmpty());
  EXPECT_THAT(lines_of({"\n"}), testing::ElementsAre(""));
}

TEST(LineInput, AMarkAtTheBeginningIsNoTextAndUtf16IsRead) {
  EXPECT_THAT(lines_of({"\xef", "\xbb", "\xbfone\n", "\xef\xbb\xbftwo\n"}),
              testing::ElementsAre("one", "\xef\xbb\xbftwo"));
  EXPECT_THAT(lines_of({"\xff", "\xfeh\0"s, "\n\0i"s, "\0"s}), testing::ElementsAre("h", "i"));
  EXPECT_THAT(lines_of({"\xfe\xff\0h"s}), testing::ElementsAre("h"));
  EXPECT_THAT(lines_of({"\xff\xfeh"}),
              testing::ElementsAre("!standard input is UTF-16 that ends within a character, at byte 2"));
  EXPECT_THAT(lines_of({"\xff{}\n", "{}\n"}), testing::ElementsAre("\xff{}", "{}"));
  EXPECT_THAT(lines_of({"\xef"}), testing::ElementsAre("\xef"));
}

TEST(LineInput, WhatCannotBeReadIsAnErrorAndNoEnd) {
  const int folder = ::open("/", O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(LineInput(folder).next().error().text(), "standard input cannot be read: Is a directory");
  ::close(folder);
  EXPECT_EQ(LineInput(-1).next().error().code, Code::kIo);
}

TEST(LineInput, ALineThatIsTooLongIsCutAndTheNextOneWhole) {
  const std::string long_line(kInputLineBytesMax + 2, 'x');
  const auto lines = lines_of({long_line + "\n", "next\n"});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].size(), kInputLineBytesMax + 1);
  EXPECT_EQ(check_line_length(lines[0]).error().code, Code::kTooLarge);
  EXPECT_TRUE(check_line_length(lines[0].substr(1)).has_value());
  EXPECT_EQ(lines[1], "next");
}

TEST(TextOfBytes, AMarkIsDroppedAndOnlyAtTheBeginning) {
  EXPECT_EQ(text_of("\xef\xbb\xbfhé"), "hé");
  EXPECT_EQ(text_of("a\xef\xbb\xbf"), "a\xef\xbb\xbf");
  EXPECT_EQ(text_of("\xef\xbb\xbf"), "");
  EXPECT_EQ(text_of("a\r\nb\r\n"), "a\r\nb\r\n");
}

TEST(TextOfBytes, Utf16WithAMarkIsRead) {
  EXPECT_EQ(text_of("\xff\xfeh\0\xe9\0\x3d\xd8\x00\xde"s), "hé😀");
  EXPECT_EQ(text_of("\xfe\xff\0h\0\xe9\xd8\x3d\xde\0"s), "hé😀");
  EXPECT_EQ(text_of("\xff\xfe"), "");
}

TEST(TextOfBytes, WhatIsNoTextIsRefusedByName) {
  EXPECT_EQ(error_of("\xff\xfeh"), "x is UTF-16 that ends within a character, at byte 2");
  EXPECT_THAT(error_of("\xff\xfe\x3d\xd8"s), HasSubstr("half of a surrogate pair"));
  EXPECT_THAT(error_of("\xff\xfe\x3d\xd8h\0"s), HasSubstr("half of a surrogate pair"));
  EXPECT_THAT(error_of("\xff\xfe\0\xde"s), HasSubstr("half of a surrogate pair"));
  EXPECT_THAT(error_of("\xff\xfe\0\0h\0\0\0"s), HasSubstr("is UTF-32"));
  EXPECT_THAT(error_of("\0\0\xfe\xff"s), HasSubstr("is UTF-32"));
  EXPECT_THAT(error_of("a\0b"s), HasSubstr("a NUL character at byte 1"));
  EXPECT_THAT(error_of("\xff\xfe\0\0"s), HasSubstr("is UTF-32"));
  EXPECT_THAT(error_of("caf\xe9"), HasSubstr("not valid UTF-8 at byte 3"));
}

TEST_F(TextFile, IsReadAsItsTextIs) {
  EXPECT_EQ(*read_text_file(write("\xff\xfey\0"s), "--flag"), "y");
  EXPECT_EQ(*read_text_file(write(""), "--flag"), "");
  EXPECT_EQ(*read_text_file(write("12345"), "--flag", 5), "12345");
}

TEST_F(TextFile, WhatIsNoFileHasTheSameWordsEverywhere) {
  EXPECT_EQ(error(folder_), "--flag: " + folder_.string() + " is no file, but a folder");
  EXPECT_EQ(error(folder_ / "none"), "--flag: " + (folder_ / "none").string() + " is no file: there is nothing");
  EXPECT_EQ(error(""), "--flag: an empty text is no file: there is nothing");
  EXPECT_THAT(error("/dev/null"), HasSubstr("is no file, but a device"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error(folder_ / "pipe"), HasSubstr("is no file, but a named pipe"));
  EXPECT_THAT(error(write("123456"), 5), AllOf(StartsWith("--flag: "), HasSubstr("has over 5 bytes")));
  EXPECT_THAT(error(write("a\0"s)), HasSubstr("text has a NUL character at byte 1"));
  EXPECT_THAT(error(folder_ / "a\x1b[1m"), Not(HasSubstr("\x1b")));
  for (const std::string& path : {folder_.string(), (folder_ / "none").string(), (folder_ / "pipe").string()})
    EXPECT_EQ(check_is_file(path, "--flag").error().text(), error(path));
}

TEST_F(TextFile, APipeOfTheShellIsRead) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "text", 4), 4);
  ::close(ends[1]);
  EXPECT_EQ(*read_text_file("/dev/fd/" + std::to_string(ends[0]), "--flag"), "text");
  ::close(ends[0]);
}

}  // namespace
}  // namespace cairn
