#include "hub/download.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "gguf/test_bytes.h"
#include "hub/test_hub.h"

namespace cairn::hub {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

/// A valid GGUF file of about `bytes` bytes whose tensor has different bytes everywhere.
std::string model_file(size_t bytes) {
  gguf::TestBytes file;
  file.header(1, 1).key("general.architecture", gguf::ValueType::kString).string("test");
  const size_t values = bytes / 4;
  file.tensor("weight", {values}, 0, 0).pad();
  const std::vector<std::byte> head = file.bytes();
  std::string text(reinterpret_cast<const char*>(head.data()), head.size());
  uint32_t value = 1;
  for (size_t i = 0; i < values * 4; ++i) {
    value = value * 1664525 + 1013904223;
    text += static_cast<char>(value >> 24);
  }
  return text;
}

class DownloadTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              fmt::format("cairn-hub-{}-{}", ::getpid(), testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    target_ = folder_ / "sub" / "m.gguf";
    limits_.piece_bytes = 64 << 10;
    limits_.first_wait = 1ms;
    limits_.progress_bytes = 1 << 10;
    limits_.report_interval = 0ms;
    std::ofstream(folder_ / "sum") << file_;
    source_.bytes = static_cast<int64_t>(file_.size());
    source_.sha256 = sha256_of(folder_ / "sum", [](int64_t) { return true; }).value();
  }
  void TearDown() override { fs::remove_all(folder_); }

  Result<void> load() {
    return download(
        source_, target_, limits_, [&](const DownloadProgress& progress) { progress_.push_back(progress); },
        cancelled_);
  }
  std::string error() {
    const auto done = load();
    return done ? "loaded" : done.error().message;
  }
  std::string loaded() const {
    std::ifstream stream(target_, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  size_t files_left() const {
    return fs::exists(folder_ / "sub") ? static_cast<size_t>(std::distance(fs::directory_iterator(folder_ / "sub"), {}))
                                       : 0;
  }

  const std::string file_ = model_file(300'000);
  fs::path folder_, target_;
  DownloadLimits limits_;
  DownloadSource source_;
  std::vector<DownloadProgress> progress_;
  std::atomic<bool> cancelled_ = false;
};

TEST_F(DownloadTest, AFileIsLoadedInPiecesAndLeavesNothingElse) {
  TestHub hub([&](const TestRequest& request) { return TestAnswer{file_answer(request, file_)}; });
  source_.url = hub.url() + "/m.gguf";
  ASSERT_EQ(error(), "loaded");
  EXPECT_TRUE(loaded() == file_);
  EXPECT_EQ(files_left(), 1);
  EXPECT_EQ(hub.requests().size(), 5);
  EXPECT_EQ(progress_.back().completed, source_.bytes);
  ASSERT_EQ(error(), "loaded");  // which asks no one
  EXPECT_EQ(hub.requests().size(), 5);
}

TEST_F(DownloadTest, CutConnectionsAreResumedWhereTheyEnded) {
  std::atomic<int> cuts = 0;
  TestHub hub([&](const TestRequest& request) {
    std::string answer = file_answer(request, file_);
    if (cuts++ < 5) answer.resize(answer.size() / 2);
    return TestAnswer{std::move(answer)};
  });
  source_.url = hub.url();
  ASSERT_EQ(error(), "loaded");
  EXPECT_TRUE(loaded() == file_);
  EXPECT_EQ(hub.requests().size(), 10);
}

TEST_F(DownloadTest, AnotherCallGoesOnFromWhatIsThere) {
  std::atomic<bool> broken = true;
  TestHub hub([&](const TestRequest& request) {
    const bool first = request.header("Range").starts_with("bytes=0-");
    return TestAnswer{broken && !first ? answer_text(503, "", "{\"error\":\"busy\"}") : file_answer(request, file_)};
  });
  source_.url = hub.url();
  limits_.connections = 1;
  limits_.attempts = 2;
  EXPECT_THAT(error(), HasSubstr("is answered 503: busy; given up after 2 attempts"));
  EXPECT_EQ(loaded_bytes(target_, source_), 64 << 10);
  EXPECT_EQ(files_left(), 2);
  broken = false;
  const size_t before = hub.requests().size();
  ASSERT_EQ(error(), "loaded");
  EXPECT_TRUE(loaded() == file_);
  for (size_t i = before; i < hub.requests().size(); ++i)
    EXPECT_FALSE(hub.requests()[i].header("Range").starts_with("bytes=0-"));
}

TEST_F(DownloadTest, AServerWithoutRangesSendsTheWholeFile) {
  std::atomic<int> cuts = 0;
  TestHub hub([&](const TestRequest&) {
    std::string answer = answer_text(200, "", file_);
    if (cuts++ == 1) answer.resize(100'000);
    return TestAnswer{std::move(answer)};
  });
  source_.url = hub.url();
  limits_.connections = 1;
  ASSERT_EQ(error(), "loaded");
  EXPECT_TRUE(loaded() == file_);
}

TEST_F(DownloadTest, AServerWithoutRangesThatAlwaysCutsIsGivenUp) {
  TestHub hub([&](const TestRequest&) {
    std::string answer = answer_text(200, "", file_);
    answer.resize(100'000);
    return TestAnswer{std::move(answer)};
  });
  source_.url = hub.url();
  limits_.attempts = 3;
  EXPECT_THAT(error(), HasSubstr("given up after 3 attempts"));
}

TEST_F(DownloadTest, AWrongChecksumIsRefusedAndLeavesNothing) {
  std::string other = file_;
  other.back() ^= 1;
  TestHub hub([&](const TestRequest& request) { return TestAnswer{file_answer(request, other)}; });
  source_.url = hub.url();
  EXPECT_THAT(error(), HasSubstr("where the hub says " + source_.sha256));
  EXPECT_EQ(files_left(), 0);
}

TEST_F(DownloadTest, LiesAboutTheSizeAreRefusedAndLeaveNothing) {
  const std::string larger = file_ + "more";
  TestHub hub([&](const TestRequest& request) {
    if (request.path == "/range") return TestAnswer{file_answer(request, larger)};
    if (request.path == "/elsewhere") return TestAnswer{answer_text(206, "Content-Range: bytes 7-9/300\r\n", "abc")};
    if (request.path == "/none") return TestAnswer{answer_text(206, "", "GGUF")};
    // Without a length, to the end of the connection.
    return TestAnswer{"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + larger};
  });
  const std::string too_large = fmt::format("has {} bytes, where the hub says {}", larger.size(), file_.size());
  const std::string endless = fmt::format("sends more than the {} bytes", file_.size());
  for (const auto& [path, why] : {std::pair<std::string, std::string>{"/range", too_large},
                                  {"/elsewhere", "sends other bytes than those from"},
                                  {"/none", "(Content-Range: )"},
                                  {"/endless", endless}}) {
    source_.url = hub.url() + path;
    EXPECT_THAT(error(), HasSubstr(why)) << path;
    EXPECT_EQ(files_left(), 0);
  }
}

TEST_F(DownloadTest, WhatIsNoGgufFileIsRefusedWithItsFirstBytes) {
  const std::string text(file_.size(), 'x');
  TestHub hub([&](const TestRequest& request) {
    const bool page = request.path == "/page";
    return TestAnswer{file_answer(request, text, page ? "Content-Type: text/html; charset=utf-8\r\n" : "")};
  });
  source_.url = hub.url() + "/page";
  EXPECT_THAT(error(), HasSubstr("sends a web page instead of a file"));
  source_.url = hub.url() + "/text";
  limits_.connections = 1;
  EXPECT_THAT(error(), HasSubstr("it begins with \"xxxx"));
  EXPECT_EQ(files_left(), 0);
}

TEST_F(DownloadTest, AFileThatIsCutInTheHubIsNoModel) {
  source_.bytes = 200'000;
  source_.sha256.clear();
  const std::string half = file_.substr(0, 200'000);
  TestHub hub([&](const TestRequest& request) { return TestAnswer{file_answer(request, half)}; });
  source_.url = hub.url();
  EXPECT_THAT(error(), HasSubstr("is no whole GGUF file"));
  EXPECT_EQ(files_left(), 0);
}

TEST_F(DownloadTest, RefusalsOfTheHubEndItAtOnce) {
  TestHub hub([&](const TestRequest& request) {
    return TestAnswer{answer_text(std::stoi(request.path.substr(1)), "", "{\"error\":\"no \\u001b\"}")};
  });
  for (const auto& [status, code] :
       {std::pair{401, Code::kInvalidArgument}, {403, Code::kInvalidArgument}, {404, Code::kNotFound}}) {
    source_.url = hub.url() + "/" + std::to_string(status);
    const auto done = load();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, code);
    EXPECT_THAT(done.error().message, HasSubstr("is answered " + std::to_string(status)));
    EXPECT_EQ(files_left(), 0);
  }
}

TEST_F(DownloadTest, ABusyHubIsAskedAgain) {
  std::atomic<int> count = 0;
  TestHub hub([&](const TestRequest& request) {
    return TestAnswer{count++ < 6 ? answer_text(count % 2 == 0 ? 429 : 500, "Retry-After: 0\r\n", "")
                                  : file_answer(request, file_)};
  });
  source_.url = hub.url();
  ASSERT_EQ(error(), "loaded");
  EXPECT_TRUE(loaded() == file_);
}

TEST_F(DownloadTest, AStalledConnectionIsGivenUp) {
  std::atomic<int> count = 0;
  TestHub hub([&](const TestRequest& request) {
    std::string answer = file_answer(request, file_);
    if (count++ > 0) return TestAnswer{std::move(answer)};
    answer.resize(30'000);
    return TestAnswer{std::move(answer), 20s};
  });
  source_.url = hub.url();
  limits_.stall = 1s;
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(error(), "loaded");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);
  EXPECT_TRUE(loaded() == file_);
}

TEST_F(DownloadTest, RedirectsAreFollowedAndTheTokenStaysWithItsHost) {
  TestHub store([&](const TestRequest& request) { return TestAnswer{file_answer(request, file_)}; });
  TestHub hub([&](const TestRequest&) { return TestAnswer{redirect_to(store.url() + "/signed?key=1")}; });
  source_.url = hub.url();
  source_.token = "hf_secret";
  ASSERT_EQ(error(), "loaded");
  ASSERT_FALSE(hub.requests().empty());
  for (const TestRequest& request : hub.requests()) EXPECT_EQ(request.header("Authorization"), "Bearer hf_secret");
  for (const TestRequest& request : store.requests()) EXPECT_EQ(request.text.find("hf_secret"), std::string::npos);
}

TEST_F(DownloadTest, ARedirectInALoopIsAnError) {
  TestHub* self = nullptr;
  TestHub hub([&](const TestRequest&) { return TestAnswer{redirect_to(self->url() + "/again")}; });
  self = &hub;
  source_.url = hub.url();
  EXPECT_THAT(error(), HasSubstr("redirects"));
  EXPECT_EQ(files_left(), 0);
}

TEST_F(DownloadTest, ACancelledDownloadKeepsWhatIsLoaded) {
  std::atomic<int> count = 0;
  TestHub hub([&](const TestRequest& request) {
    if (count++ == 1) cancelled_ = true;
    return TestAnswer{file_answer(request, file_), count > 1 ? 5s : 0s};
  });
  source_.url = hub.url();
  limits_.connections = 1;
  const auto done = load();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kCancelled);
  EXPECT_GE(loaded_bytes(target_, source_), 64 << 10);
}

TEST_F(DownloadTest, TwoAtOnceLoadTheFileOnce) {
  TestHub hub([&](const TestRequest& request) {
    std::this_thread::sleep_for(20ms);
    return TestAnswer{file_answer(request, file_)};
  });
  source_.url = hub.url();
  Result<void> other;
  std::thread thread([&] { other = download(source_, target_, limits_, [](const DownloadProgress&) {}, cancelled_); });
  EXPECT_EQ(error(), "loaded");
  thread.join();
  EXPECT_TRUE(other.has_value());
  EXPECT_TRUE(loaded() == file_);
  EXPECT_EQ(hub.requests().size(), 5);
  EXPECT_EQ(files_left(), 1);
}

TEST_F(DownloadTest, WithoutAChecksumAnotherEntityTagMeansAnotherFile) {
  std::string newer = file_;
  newer.back() ^= 1;
  std::atomic<int> count = 0;
  TestHub hub([&](const TestRequest& request) {
    return TestAnswer{count++ < 2 ? file_answer(request, file_, "ETag: \"one\"\r\n")
                                  : file_answer(request, newer, "ETag: \"two\"\r\n")};
  });
  source_.url = hub.url();
  source_.sha256.clear();
  limits_.connections = 1;
  ASSERT_EQ(error(), "loaded");
  EXPECT_TRUE(loaded() == newer);
  EXPECT_EQ(hub.requests()[1].header("If-Range"), "\"one\"");
}

TEST(LoadedRanges, WhatTouchesIsMergedAndTheRestIsCutIntoPieces) {
  LoadedRanges ranges;
  ranges.add({10, 20});
  ranges.add({40, 50});
  ranges.add({20, 30});
  ranges.add({5, 5});
  ASSERT_EQ(ranges.spans().size(), 2);
  EXPECT_EQ(ranges.spans()[0], (ByteSpan{10, 30}));
  EXPECT_EQ(ranges.bytes(), 30);
  EXPECT_EQ(ranges.missing(60, 8), (std::vector<ByteSpan>{{0, 8}, {8, 10}, {30, 38}, {38, 40}, {50, 58}, {58, 60}}));
  ranges.add({0, 60});
  EXPECT_EQ(ranges.spans().size(), 1);
  EXPECT_TRUE(ranges.missing(60, 8).empty());
}

TEST(DownloadState, OnlyWhatWasWrittenIsReadAgain) {
  DownloadState state{.bytes = 100, .sha256 = "ab", .etag = "\"x\"", .loaded = {}};
  state.loaded.add({0, 10});
  state.loaded.add({20, 100});
  const std::string text = write_state(state);
  const auto read = read_state(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(write_state(*read), text);
  for (const char* wrong : {"", "[]", "{}", R"({"version": 2, "bytes": 1, "sha256": "", "etag": "", "loaded": []})",
                            R"({"version": 1, "bytes": 5, "sha256": "", "etag": "", "loaded": [[0, 6]]})",
                            R"({"version": 1, "bytes": 5, "sha256": "", "etag": "", "loaded": [[3, 2]]})",
                            R"({"version": 1, "bytes": 5, "sha256": "", "etag": "", "loaded": [[-1, 2]]})",
                            R"({"version": 1, "bytes": 5, "sha256": "", "etag": "", "loaded": [1]})"})
    EXPECT_FALSE(read_state(wrong)) << wrong;
}

}  // namespace
}  // namespace cairn::hub
