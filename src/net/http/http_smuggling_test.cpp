// tidy: table
// Requests about whose end two readers could disagree (request smuggling, RFC 9112 sections 2.2 to 7.1 and 11.2). Each
// is refused, the connection is closed, and what looks like a second request behind it never runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "net/http/http_request_parser.h"
#include "net/http/http_test_support.h"

namespace cairn::net {
namespace {

using namespace std::string_literals;

struct Shape {
  const char* name;
  std::string bytes;  // bytes that follow the request: kSecond
  int status;
};

const std::string kSecond = "GET /second HTTP/1.1\r\nHost: localhost\r\n\r\n";
const std::string kBig(70'000, 'x');

/// A POST with these headers, and the bytes after the empty line.
std::string post(const std::string& headers, const std::string& body = "") {
  return "POST /first HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n" + body;
}
std::string coded(const std::string& coding) { return post("Transfer-Encoding: " + coding + "\r\n", "0\r\n\r\n"); }
std::string chunked(const std::string& body) { return post("Transfer-Encoding: chunked\r\n", body); }
std::string length(const std::string& value) { return post("Content-Length: " + value + "\r\n", "12345"); }

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes = {
      // Transfer-Encoding (RFC 9112, 6.1).
      {"an unknown coding", coded("xchunked"), 501},
      {"an unknown coding behind white space", coded(" \t chunkedx"), 501},
      {"identity", coded("identity"), 501},
      {"gzip", coded("gzip"), 501},
      {"gzip, then chunked", coded("gzip, chunked"), 501},
      {"gzip in a header of its own", post("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
       501},
      {"chunked, then gzip", coded("chunked, gzip"), 400},
      {"chunked, then identity", coded("chunked, identity"), 400},
      {"chunked twice", coded("chunked, chunked"), 400},
      {"chunked in two headers", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
       400},
      {"chunked, then another header", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", "0\r\n\r\n"),
       400},
      {"chunked in quotes", coded("\"chunked\""), 400},
      {"chunked with an empty element before", coded(", chunked"), 400},
      {"chunked with an empty element behind", coded("chunked,"), 400},
      {"chunked with a parameter", coded("chunked;q=1"), 501},
      {"no coding", coded(""), 400},
      {"two words", coded("chunked foo"), 400},
      {"a vertical tab before chunked", coded("\vchunked"), 400},
      {"a form feed behind chunked", coded("chunked\f"), 400},
      {"a NUL behind chunked", coded("chunked\0"s), 400},
      {"a byte over 127 before chunked",
       coded("\xa0"
             "chunked"),
       400},
      {"in HTTP/1.0", "POST /first HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"in HTTP/1.0 that stays",
       "POST /first HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      // Both Transfer-Encoding and Content-Length (6.3).
      {"chunked before a length", post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "0\r\n\r\n"), 400},
      {"chunked behind a length", post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
      {"identity with a length", post("Transfer-Encoding: identity\r\nContent-Length: 4\r\n", "1234"), 400},
      {"an unknown coding with a length", post("Transfer-Encoding: foo\r\nContent-Length: 4\r\n", "1234"), 400},
      {"chunked with a length in odd letters", post("tRANSFER-eNCODING: ChUnKeD\r\ncOnTeNt-LeNgTh: 4\r\n", "0\r\n\r\n"),
       400},
      // Content-Length (RFC 9110, 8.6).
      {"two lengths", post("Content-Length: 5\r\nContent-Length: 6\r\n", "12345"), 400},
      {"the same length twice", post("Content-Length: 5\r\nContent-Length: 5\r\n", "12345"), 400},
      {"a list of lengths", length("5, 5"), 400},
      {"a list of different lengths", length("5,6"), 400},
      {"a plus", length("+5"), 400},
      {"a minus", length("-5"), 400},
      {"hexadecimal", length("0x5"), 400},
      {"a fraction", length("5.0"), 400},
      {"an exponent", length("5e0"), 400},
      {"white space inside", length("5 0"), 400},
      {"letters behind", length("5abc"), 400},
      {"no digits", length(""), 400},
      {"a comma alone", length(","), 400},
      {"quotes", length("\"5\""), 400},
      {"digits of another script", length("\xd9\xa5"), 400},
      {"2 to the 64th and 5", length("18446744073709551621"), 413},
      {"2 to the 63rd", length("9223372036854775808"), 413},
      // Field names and folding (5.1, 5.2).
      {"a space before the colon of a length", post("Content-Length : 5\r\n", "12345"), 400},
      {"a tab before the colon of a coding", post("Transfer-Encoding\t: chunked\r\n", "0\r\n\r\n"), 400},
      {"a space before the name", post(" Content-Length: 5\r\n", "12345"), 400},
      {"a fold", post("X: a\r\n Content-Length: 5\r\n", "12345"), 400},
      {"a fold in the coding", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), 400},
      {"white space before the first header",
       "POST /first HTTP/1.1\r\n Content-Length: 5\r\nHost: localhost\r\n\r\n12345", 400},
      {"no colon", post("Content-Length 5\r\n", "12345"), 400},
      {"no name", post(": 5\r\n", "12345"), 400},
      {"a NUL in a name", post("Content-Length\0: 5\r\n"s, "12345"), 400},
      {"a NUL in a value", post("X: a\0b\r\n"s), 400},
      {"a byte over 127 in a name", post("Cont\xe9nt: 5\r\n", "12345"), 400},
      {"parentheses in a name", post("Content(Length): 5\r\n", "12345"), 400},
      // Line ends (2.2).
      {"LF alone behind a header", post("X: a\nContent-Length: 5\r\n", "12345"), 400},
      {"LF alone behind the first line", "GET /first HTTP/1.1\nHost: localhost\r\n\r\n", 400},
      {"LF alone for the empty line", "GET /first HTTP/1.1\r\nHost: localhost\r\n\n", 400},
      {"CR alone in a value", post("X: a\rContent-Length: 5\r\n", "12345"), 400},
      {"CR alone behind a header", post("X: a\rY: b\r\n"), 400},
      {"CR twice", post("X: a\r\r\n"), 400},
      {"LF alone before the request", "\nGET /first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      // The request line (3).
      {"two spaces behind the method", "GET  /first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"two spaces before the version", "GET /first  HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"a tab for a space", "GET\t/first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"a space in the target", "GET /first HTTP/1.1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"a space before the method", " GET /first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"a space behind the version", "GET /first HTTP/1.1 \r\nHost: localhost\r\n\r\n", 400},
      {"no version", "GET /first\r\nHost: localhost\r\n\r\n", 400},
      {"a version in small letters", "GET /first http/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"a version with more digits", "GET /first HTTP/1.10\r\nHost: localhost\r\n\r\n", 400},
      {"HTTP/2.0", "GET /first HTTP/2.0\r\nHost: localhost\r\n\r\n", 505},
      {"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"a NUL in the target", "GET /fi\0rst HTTP/1.1\r\nHost: localhost\r\n\r\n"s, 400},
      {"a method that is no word", "GE(T /first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"a target of an authority", "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"a target without a slash", "GET first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"a star for GET", "GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"a user in the target", "GET http://a@localhost/first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"no host in the target", "GET http:///first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      // The Host header (3.2).
      {"no Host", "GET /first HTTP/1.1\r\n\r\n", 400},
      {"two Hosts", "GET /first HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400},
      {"two Hosts in HTTP/1.0", "GET /first HTTP/1.0\r\nHost: localhost\r\nHost: elsewhere\r\n\r\n", 400},
      {"a Host with a path", "GET /first HTTP/1.1\r\nHost: localhost/x\r\n\r\n", 400},
      {"a list of Hosts", "GET /first HTTP/1.1\r\nHost: localhost, localhost elsewhere\r\n\r\n", 400},
      {"a user in Host", "GET /first HTTP/1.1\r\nHost: a@localhost\r\n\r\n", 400},
      {"a port that is no number", "GET /first HTTP/1.1\r\nHost: localhost:8o\r\n\r\n", 400},
      {"a target's host without Host", "GET http://localhost/first HTTP/1.1\r\n\r\n", 400},
      // Chunks (7.1).
      {"a size with 0x", chunked("0x5\r\n12345\r\n0\r\n\r\n"), 400},
      {"a size with a plus", chunked("+5\r\n12345\r\n0\r\n\r\n"), 400},
      {"a size with a minus", chunked("-5\r\n12345\r\n0\r\n\r\n"), 400},
      {"a size with a space before", chunked(" 5\r\n12345\r\n0\r\n\r\n"), 400},
      {"a size with a space behind", chunked("5 \r\n12345\r\n0\r\n\r\n"), 400},
      {"a size with letters", chunked("5g\r\n12345\r\n0\r\n\r\n"), 400},
      {"no size", chunked("\r\n12345\r\n0\r\n\r\n"), 400},
      {"an extension without a size", chunked(";a=b\r\n0\r\n\r\n"), 400},
      {"a size that wraps round", chunked("10000000000000005\r\n12345\r\n0\r\n\r\n"), 413},
      {"a size of all bits", chunked("ffffffffffffffff\r\n12345\r\n0\r\n\r\n"), 413},
      {"LF alone behind a size", chunked("5\n12345\r\n0\r\n\r\n"), 400},
      {"LF alone in an extension", chunked("5;a\nb\r\n12345\r\n0\r\n\r\n"), 400},
      {"CR alone in an extension", chunked("5;a\rb\r\n12345\r\n0\r\n\r\n"), 400},
      {"LF alone behind a chunk", chunked("5\r\n12345\n0\r\n\r\n"), 400},
      {"nothing behind a chunk", chunked("5\r\n123450\r\n\r\n"), 400},
      {"a chunk longer than its size", chunked("5\r\n1234567\r\n0\r\n\r\n"), 400},
      {"an extension of 70,000 bytes", chunked("5;" + kBig + "\r\n12345\r\n0\r\n\r\n"), 431},
      {"a size of 70,000 zeros", chunked(std::string(70'000, '0') + "5\r\n12345\r\n0\r\n\r\n"), 431},
      // Trailers (7.1.2).
      {"a trailer of 65,536 bytes", chunked("0\r\nX-T: " + kBig.substr(0, 65'536) + "\r\n\r\n"), 431},
      {"a trailer without a colon", chunked("0\r\nX-T\r\n\r\n"), 400},
      {"a fold in a trailer", chunked("0\r\nX: a\r\n b\r\n\r\n"), 400},
      {"LF alone in a trailer", chunked("0\r\nX: a\n\r\n"), 400},
      {"LF alone for the end of a trailer", chunked("0\r\n\n"), 400},
      {"a NUL in a trailer", chunked("0\r\nX: a\0\r\n\r\n"s), 400},
  };
  return kShapes;
}

int status_of(const std::string& bytes, size_t piece) {
  const HttpLimits limits;
  HttpRequestParser parser(limits);
  for (size_t begin = 0; begin < bytes.size() && !parser.done() && !parser.refused(); begin += piece) {
    parser.push(std::string_view(bytes).substr(begin, piece));
  }
  return parser.refused() ? parser.status() : 0;
}

TEST(HttpSmuggling, EveryAmbiguousRequestIsRefusedHoweverItsBytesAreCut) {
  EXPECT_GE(shapes().size(), 110u);
  for (const Shape& shape : shapes()) {
    for (const size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{1} << 20}) {
      EXPECT_EQ(status_of(shape.bytes + kSecond, piece), shape.status) << shape.name << " in pieces of " << piece;
    }
  }
}

class HttpSmugglingTest : public HttpServerTest {};

TEST_F(HttpSmugglingTest, EveryAmbiguousRequestClosesItsConnectionAndTheNextNeverRuns) {
  std::atomic<int> ran = 0;
  start({}, [&](const HttpRequest&, const std::shared_ptr<HttpResponse>& response) {
    ran.fetch_add(1);
    response->send(200, "text/plain", "ran");
  });
  for (const Shape& shape : shapes()) {
    RawClient client(port());
    client.send(shape.bytes + kSecond);
    client.finish();
    const std::string got = client.read_until("");  // to the end of the connection
    EXPECT_THAT(got, testing::StartsWith(fmt::format("HTTP/1.1 {} ", shape.status))) << shape.name;
    EXPECT_EQ(got.find("\nHTTP/1.1 "), std::string::npos) << shape.name << ": " << got;
    EXPECT_THAT(got, testing::HasSubstr("\r\nConnection: close\r\n")) << shape.name;
    EXPECT_EQ(ran.load(), 0) << shape.name;
  }
}

}  // namespace
}  // namespace cairn::net
