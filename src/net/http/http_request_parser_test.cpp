#include "net/http/http_request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace cairn::net {
namespace {

using testing::HasSubstr;

/// Feeds `bytes` in pieces; the bytes after the request's end stay in `left`.
struct Parsed {
  Parsed(std::string_view bytes, const HttpLimits& limits, size_t piece = 1 << 20) : parser(limits), left(bytes) {
    while (!left.empty() && !parser.done() && !parser.refused()) {
      left.remove_prefix(parser.push(left.substr(0, piece)));
    }
  }
  HttpRequestParser parser;
  std::string_view left;
};

TEST(HttpRequestParser, TakesOneRequestAndLeavesTheNext) {
  const HttpLimits limits;
  const std::string text =
      "\r\n\r\nPOST /a%20b?x=1&y=%20 HTTP/1.1\r\nHost: localhost:80\r\nX-Empty:\r\nX-Two: \t a b\t\r\nx-two: c\r\n"
      "Content-Length: 005\r\n\r\nhelloGET /next HTTP/1.1\r\n";
  for (const size_t piece : {1, 2, 5, 1'000}) {
    Parsed parsed(text, limits, piece);
    ASSERT_TRUE(parsed.parser.done()) << parsed.parser.message();
    EXPECT_TRUE(parsed.parser.keep_alive());
    EXPECT_EQ(parsed.left, "GET /next HTTP/1.1\r\n");
    const HttpRequest request = parsed.parser.take();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/a b");
    EXPECT_EQ(request.query, "x=1&y=%20");
    EXPECT_EQ(request.body, "hello");
    const std::vector<std::pair<std::string, std::string>> headers = {
        {"host", "localhost:80"}, {"x-empty", ""}, {"x-two", "a b"}, {"x-two", "c"}, {"content-length", "005"}};
    EXPECT_EQ(request.headers, headers);
  }
}

TEST(HttpRequestParser, JoinsChunksAndDropsExtensionsAndTrailers) {
  const HttpLimits limits;
  const std::string text =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: ChunKed\r\n\r\n"
      "5\r\nhello\r\n006;name=\"a;b\" ; other\r\n world\r\n0\t;x\r\nHost: evil\r\nContent-Length: 9\r\n\r\nrest";
  for (const size_t piece : {1, 3, 1'000}) {
    Parsed parsed(text, limits, piece);
    ASSERT_TRUE(parsed.parser.done()) << parsed.parser.message();
    EXPECT_EQ(parsed.left, "rest");
    const HttpRequest request = parsed.parser.take();
    EXPECT_EQ(request.body, "hello world");
    EXPECT_EQ(request.header("host"), "h");
    EXPECT_EQ(request.header("content-length"), "");
  }
}

TEST(HttpRequestParser, TheHostOfAnAbsoluteTargetReplacesTheHostHeader) {
  const HttpLimits limits;
  struct Case {
    const char *target, *path, *query, *host;
  };
  for (const Case& one : {Case{"http://a.b:8080/p?q", "/p", "q", "a.b:8080"}, Case{"HTTPS://[::1]", "/", "", "[::1]"},
                          Case{"http://a?q=/", "/", "q=/", "a"}, Case{"/http://a/", "/http://a/", "", "old"}}) {
    Parsed parsed(fmt::format("GET {} HTTP/1.1\r\nHost: old\r\n\r\n", one.target), limits);
    ASSERT_TRUE(parsed.parser.done()) << one.target << ": " << parsed.parser.message();
    const HttpRequest request = parsed.parser.take();
    EXPECT_EQ(request.path, one.path) << one.target;
    EXPECT_EQ(request.query, one.query) << one.target;
    EXPECT_EQ(request.header("host"), one.host) << one.target;
  }
  EXPECT_TRUE(Parsed("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", limits).parser.done());
}

TEST(HttpRequestParser, DeterminesWhetherTheConnectionStaysOpen) {
  const HttpLimits limits;
  struct Case {
    const char *version, *header;
    bool keep_alive;
  };
  for (const Case& one : {Case{"1.1", "", true}, Case{"1.1", "Connection: foo, Close\r\n", false},
                          Case{"1.1", "Connection: keep-alive\r\nConnection: close\r\n", false}, Case{"1.0", "", false},
                          Case{"1.0", "Connection: Keep-Alive\r\n", true},
                          Case{"1.0", "Connection: close, keep-alive\r\n", false}, Case{"1.7", "", true}}) {
    Parsed parsed(fmt::format("GET / HTTP/{}\r\nHost: h\r\n{}\r\n", one.version, one.header), limits);
    ASSERT_TRUE(parsed.parser.done()) << parsed.parser.message();
    EXPECT_EQ(parsed.parser.keep_alive(), one.keep_alive) << one.version << " " << one.header;
    EXPECT_EQ(parsed.parser.modern(), std::string_view(one.version) != "1.0");
  }
}

TEST(HttpRequestParser, WantsContinueUntilTheBodyComes) {
  const HttpLimits limits;
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n";
  EXPECT_FALSE(Parsed(head, limits).parser.wants_continue());
  EXPECT_TRUE(Parsed(head + "\r\n", limits).parser.wants_continue());
  EXPECT_FALSE(Parsed(head + "\r\na", limits).parser.wants_continue());
  EXPECT_FALSE(
      Parsed("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", limits).parser.wants_continue());
}

// 431 comes when the limit is passed, not when the line or the request ends.
TEST(HttpRequestParser, HeadTrailersAndChunkExtensionsShareOneLimit) {
  HttpLimits limits;
  limits.header_bytes_max = 2'000;
  const std::string chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& endless : {std::string("GET /"), std::string("GET / HTTP/1.1\r\nX: "), std::string("\r\n"),
                                     chunked + "1;", chunked + "0\r\nX: ", chunked}) {
    std::string text = endless;
    const std::string more = endless == "\r\n" ? "\r\n" : "0";
    while (text.size() < 3'000) text += more;
    Parsed parsed(text, limits, 1);
    EXPECT_EQ(parsed.parser.status(), 431) << endless;
    EXPECT_THAT(parsed.parser.message(), HasSubstr("2000 bytes"));
    // A size's 16 digits do not count.
    EXPECT_NEAR(static_cast<double>(text.size() - parsed.left.size()), 2'000, 25) << endless;
  }
  std::string chunks = chunked, trailers = chunked + "0\r\n";
  for (int i = 0; i < 500; ++i) {
    chunks += "1;abc\r\nx\r\n";
    trailers += "X-T: 1\r\n";
  }
  EXPECT_EQ(Parsed(chunks, limits).parser.status(), 431);
  EXPECT_EQ(Parsed(trailers, limits).parser.status(), 431);
}

TEST(HttpRequestParser, ChunksOfOneByteDoNotCountAsHeaderBytes) {
  HttpLimits limits;
  limits.header_bytes_max = 200;
  std::string text = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 1'000; ++i) text += "1\r\nx\r\n";
  Parsed parsed(text + "0\r\n\r\n", limits);
  ASSERT_TRUE(parsed.parser.done()) << parsed.parser.message();
  EXPECT_EQ(parsed.parser.take().body, std::string(1'000, 'x'));
}

TEST(HttpRequestParser, MoreFieldsThanTheLimitAreRefused) {
  const HttpLimits limits;
  std::string head = "GET / HTTP/1.1\r\nHost: h\r\n", trailer;
  for (size_t i = 1; i < kFieldsMax; ++i) trailer += "a:\r\n";
  EXPECT_TRUE(Parsed(head + trailer + "\r\n", limits).parser.done());
  EXPECT_EQ(Parsed(head + trailer + "a:\r\n", limits).parser.status(), 431);
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n0\r\n";
  EXPECT_TRUE(Parsed(chunked + trailer + "a:\r\n\r\n", limits).parser.done());
  EXPECT_EQ(Parsed(chunked + trailer + "a:\r\na:\r\n", limits).parser.status(), 431);
}

TEST(HttpRequestParser, BodiesOverTheLimitAreRefusedBeforeTheyArrive) {
  HttpLimits limits;
  limits.body_bytes_max = 1'000;
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(Parsed(head + "Content-Length: 1001\r\n\r\n", limits).parser.status(), 413);
  EXPECT_TRUE(Parsed(head + "Content-Length: 1000\r\n\r\n" + std::string(1'000, 'x'), limits).parser.done());
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n3E8\r\n" + std::string(1'000, 'x') + "\r\n";
  EXPECT_TRUE(Parsed(chunked + "0\r\n\r\n", limits).parser.done());
  EXPECT_EQ(Parsed(chunked + "1\r\n", limits).parser.status(), 413);
}

TEST(HttpRequestParser, TakesItsMemoryFromTheBudgetAndReturnsIt) {
  constexpr int64_t kBytes = 1 << 20;
  HttpLimits limits;
  limits.budget = std::make_shared<ByteBudget>(kBytes);
  const std::string small = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 700000\r\n\r\n";
  {
    Parsed first(head + std::string(650'000, 'x'), limits);
    EXPECT_FALSE(first.parser.refused());
    const int64_t used = limits.budget->used();
    EXPECT_GE(used, 650'000 - kUncountedBytes);
    EXPECT_LE(used, 700'000);  // never more than the body can have
    Parsed second(head + std::string(650'000, 'x'), limits);
    EXPECT_EQ(second.parser.status(), 503);
    EXPECT_EQ(limits.budget->used(), used) << "a refused request holds nothing";
    EXPECT_TRUE(Parsed(small, limits).parser.done()) << "a small one goes through";
    first.parser.push(std::string(50'000, 'x'));
    ASSERT_TRUE(first.parser.done());
    const HttpRequest request = first.parser.take();
    EXPECT_EQ(request.body.size(), 700'000u);
    EXPECT_GE(limits.budget->used(), 700'000 - kUncountedBytes);
  }
  EXPECT_EQ(limits.budget->used(), 0);
}

TEST(HttpRequestParser, InputThatIsNotHttpIsRefusedAtItsFirstByte) {
  const HttpLimits limits;
  Parsed tls(std::string_view("\x16\x03\x01\x02", 4), limits);
  EXPECT_EQ(tls.parser.status(), 400);
  EXPECT_THAT(tls.parser.message(), HasSubstr("0x16"));
}

}  // namespace
}  // namespace cairn::net
