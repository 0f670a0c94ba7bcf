#include "base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cairn {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

struct Ends {
  std::array<int, 2> fds{};
  ~Ends() {
    for (const int fd : fds)
      if (fd >= 0) ::close(fd);
  }
};

// Reads what is available without waiting.
std::string read_all(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  std::string text;
  std::array<char, 4096> bytes{};
  for (ssize_t got; (got = ::read(fd, bytes.data(), bytes.size())) > 0;)
    text.append(bytes.data(), static_cast<size_t>(got));
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

TEST(Log, AnyTextBecomesOneLine) {
  Ends pipe;
  ASSERT_EQ(::pipe(pipe.fds.data()), 0);
  LogWriter writer(pipe.fds[1]);
  writer.line(LogLevel::kInfo, "x\n07:00:00.000 error forged \x1b[31m \u202e");
  writer.line(LogLevel::kError, std::string(1 << 20, 'y'));
  const std::string text = read_all(pipe.fds[0]);
  const auto lines = lines_of(text);
  ASSERT_EQ(lines.size(), 2u) << text;
  EXPECT_THAT(lines[0], HasSubstr(" info x\\n07:00:00.000 error forged \\x1b[31m \\xe2\\x80\\xae"));
  EXPECT_THAT(lines[0], Not(HasSubstr("\x1b")));
  EXPECT_THAT(lines[1], HasSubstr(" error yyyy"));
  EXPECT_LE(lines[1].size(), 4'096u);
  EXPECT_TRUE(lines[1].ends_with("..."));
}

TEST(Log, LinesInJsonAreObjectsWithTheMembersOfTheirEvent) {
  Ends pipe;
  ASSERT_EQ(::pipe(pipe.fds.data()), 0);
  LogWriter writer(pipe.fds[1]);
  set_log_format(LogFormat::kJson);
  writer.line(LogLevel::kWarning, "say \"x\"\n\x01");
  writer.line(LogLevel::kInfo, std::string(1 << 20, '"'), R"("tokens":5,"key":null)");
  set_log_format(LogFormat::kText);
  const auto lines = lines_of(read_all(pipe.fds[0]));
  ASSERT_EQ(lines.size(), 2u);
  const auto first = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(first["level"], "warning");
  EXPECT_EQ(first["message"], R"(say "x"\n\x01)");
  EXPECT_EQ(first["time"].get<std::string>().size(), std::string_view("2026-01-31T12:00:00.000Z").size());
  const auto second = nlohmann::json::parse(lines[1]);
  EXPECT_EQ(second["tokens"], 5);
  EXPECT_TRUE(second["key"].is_null());
  EXPECT_LE(lines[1].size(), 4'096u);
}

// Writes more than a pipe holds: without a reader the writer returns, and the lost lines are counted.
void expect_counted(int read_end, int write_end) {
  LogWriter writer(write_end);
  const int flags = ::fcntl(write_end, F_GETFL);
  constexpr int kLines = 4'000;
  for (int i = 0; i < kLines; ++i) writer.line(LogLevel::kInfo, fmt::format("line {} {}", i, std::string(500, 'z')));
  EXPECT_EQ(::fcntl(write_end, F_GETFL), flags);  // other programs share the open file
  std::string text = read_all(read_end);
  writer.line(LogLevel::kInfo, "after");
  text += read_all(read_end);
  const auto lines = lines_of(text);
  ASSERT_GT(lines.size(), 10u);
  ASSERT_LT(lines.size(), size_t{kLines});
  const auto written = lines.size() - 2;
  for (size_t i = 0; i < written; ++i) EXPECT_THAT(lines[i], HasSubstr(fmt::format(" info line {} z", i)));
  EXPECT_THAT(lines[written], HasSubstr(fmt::format(" warning {} lines of this log were lost", kLines - written)));
  EXPECT_THAT(lines.back(), HasSubstr(" info after"));
}

TEST(Log, LinesToAPipeThatIsNotReadAreLostAndCounted) {
  Ends pipe;
  ASSERT_EQ(::pipe(pipe.fds.data()), 0);
  expect_counted(pipe.fds[0], pipe.fds[1]);
}

TEST(Log, LinesToASocketThatIsNotReadAreLostAndCounted) {
  Ends pair;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.fds.data()), 0);
  expect_counted(pair.fds[0], pair.fds[1]);
}

TEST(LogRate, AdmitsItsNumberOfLinesAndCountsTheDroppedOnes) {
  LogRate rate(2, 10s);
  const auto begin = std::chrono::steady_clock::time_point(100s);
  int64_t left_out = -1;
  EXPECT_TRUE(rate.admits(begin, left_out));
  EXPECT_EQ(left_out, 0);
  EXPECT_TRUE(rate.admits(begin + 1s, left_out));
  EXPECT_FALSE(rate.admits(begin + 2s, left_out));
  EXPECT_FALSE(rate.admits(begin + 9s, left_out));
  EXPECT_TRUE(rate.admits(begin + 10s, left_out));
  EXPECT_EQ(left_out, 2);
}

}  // namespace
}  // namespace cairn
