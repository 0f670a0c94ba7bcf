// Fuzzes the bytes of an HTTP connection: the same requests and the same refusal however the bytes are cut, within the
// limits and the budget; and a request that is written again in plain form is read as the same.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/system/byte_budget.h"
#include "net/http/authority.h"
#include "net/http/content_coding.h"
#include "net/http/host_policy.h"
#include "net/http/http_request_parser.h"

using namespace cairn;       // NOLINT: one small program
using namespace cairn::net;  // NOLINT

namespace {

constexpr size_t kHeaderBytesMax = 2'048, kBodyBytesMax = 4'096, kMessageBytesMax = 600, kDecodedBytesMax = 1 << 20;

void require(bool condition) {
  if (!condition) std::abort();
}

HttpLimits limits(int64_t budget) {
  HttpLimits made;
  made.header_bytes_max = kHeaderBytesMax;
  made.body_bytes_max = kBodyBytesMax;
  made.budget = std::make_shared<ByteBudget>(budget);
  return made;
}

struct Outcome {
  std::vector<HttpRequest> requests;
  std::vector<bool> keep_alive, modern;
  int status = 0;  // status of the refusal
  std::string message;
  bool begun = false;  // whether a request is incomplete at the end
};

bool same(const Outcome& a, const Outcome& b) {
  const auto same_request = [](const HttpRequest& x, const HttpRequest& y) {
    return x.method == y.method && x.path == y.path && x.query == y.query && x.headers == y.headers && x.body == y.body;
  };
  return std::ranges::equal(a.requests, b.requests, same_request) && a.keep_alive == b.keep_alive &&
         a.modern == b.modern && a.status == b.status && a.begun == b.begun;
}

/// Reads requests as a connection does, which continues with the bytes after a request's end.
Outcome read_all(std::string_view bytes, size_t piece, const HttpLimits& limits) {
  Outcome outcome;
  auto parser = std::make_unique<HttpRequestParser>(limits);
  for (size_t begin = 0; begin < bytes.size(); begin += piece) {
    std::string_view rest = bytes.substr(begin, piece);
    while (!rest.empty()) {
      const size_t taken = parser->push(rest);
      require(taken <= rest.size() && (taken == rest.size() || parser->done() || parser->refused()));
      require(limits.budget->used() <= limits.budget->bytes_max());
      rest.remove_prefix(taken);
      if (parser->refused()) {
        outcome.status = parser->status();
        outcome.message = parser->message();
        return outcome;
      }
      if (!parser->done()) continue;
      outcome.keep_alive.push_back(parser->keep_alive());
      outcome.modern.push_back(parser->modern());
      outcome.requests.push_back(parser->take());
      parser = std::make_unique<HttpRequestParser>(limits);
    }
  }
  outcome.begun = parser->begun();
  return outcome;
}

/// A compressed body stays within its bounds, and what is compressed here is read again.
void check_coding(std::string_view body) {
  for (const ContentCoding coding : {ContentCoding::kGzip, ContentCoding::kZstd}) {
    size_t asked = 0;
    const auto decoded = decode_body(coding, body, kDecodedBytesMax, [&](size_t bytes) {
      asked = std::max(asked, bytes);
      return true;
    });
    require(asked <= 3 * kDecodedBytesMax);
    if (decoded) require(decoded->size() <= kDecodedBytesMax);
  }
  GzipWriter writer;
  std::string packed = writer.add(body.substr(0, body.size() / 2), true);
  packed += writer.add(body.substr(body.size() / 2), false);
  packed += writer.finish();
  const auto again = decode_body(ContentCoding::kGzip, packed, body.size(), [](size_t) { return true; });
  require(again && *again == body);
}

void check(const HttpRequest& request) {
  size_t bytes = 0;
  for (const auto& [name, value] : request.headers) {
    require(!name.empty() && lower_case(name) == name);
    require(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    bytes += name.size() + value.size();
  }
  require(!request.method.empty() && !request.path.empty());
  require(bytes <= kHeaderBytesMax && request.body.size() <= kBodyBytesMax && request.headers.size() <= kFieldsMax + 1);
  require(std::ranges::count(request.headers, std::string("host"), [](const auto& field) { return field.first; }) <= 1);
  const HostPolicy policy({.hosts = {"example.org"}, .origins = {"https://*.example.org"}}, true);
  (void)policy.refusal(request);
  const std::string origin = policy.readable_by(request);
  require(origin.empty() || origin == request.header("origin"));
  (void)accepts_gzip(request.header("accept-encoding"));
  if (content_coding(request.header("content-encoding")).value_or(ContentCoding::kIdentity) != ContentCoding::kIdentity)
    check_coding(request.body);
}

/// The request, formatted in an unusual but valid way.
std::string written(const HttpRequest& request, bool modern) {
  std::string text = request.method + " /";
  for (const char c : std::string_view(request.path).substr(request.path == "*" ? 0 : 1)) {
    text += fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  if (!request.query.empty()) text += "?" + request.query;
  text += modern ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n";
  for (const auto& [name, value] : request.headers) {
    if (name != "content-length" && name != "transfer-encoding") text += name + ":" + value + "\r\n";
  }
  return text + fmt::format("content-length:{}\r\n\r\n", request.body.size()) + request.body;
}

void check_again(const HttpRequest& request, bool modern) {
  if (request.headers.size() >= kFieldsMax) return;  // one more may be too many
  HttpLimits roomy = limits(1 << 20);
  roomy.header_bytes_max = 8 * kHeaderBytesMax;
  const Outcome again = read_all(written(request, modern), 1 << 20, roomy);
  require(again.requests.size() == 1 && again.status == 0 && !again.begun);
  const HttpRequest& second = again.requests[0];
  require(second.method == request.method && second.query == request.query && second.body == request.body);
  require(second.path == request.path || request.path == "*");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const HttpLimits roomy = limits(1 << 30);
  check_coding(bytes);
  {
    const Outcome whole = read_all(bytes, bytes.size() + 1, roomy);
    const size_t piece = size == 0 ? 1 : 1 + data[size - 1] % 16;
    require(same(read_all(bytes, piece, roomy), whole) && same(read_all(bytes, 1, roomy), whole));
    require((whole.status == 0) == whole.message.empty() && whole.message.size() <= kMessageBytesMax);
    for (size_t i = 0; i < whole.requests.size(); ++i) {
      check(whole.requests[i]);
      check_again(whole.requests[i], whole.modern[i]);
    }
  }
  require(roomy.budget->used() == 0);
  const HttpLimits tight = limits(1'024);
  (void)read_all(bytes, 7, tight);
  require(tight.budget->used() == 0);
  return 0;
}
