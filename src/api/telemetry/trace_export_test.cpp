#include "api/telemetry/trace_export.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "net/http/http_test_support.h"
#include "net/http/test_certificates.h"

namespace cairn::api {
namespace {

using std::chrono::milliseconds;

constexpr const char* kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

RequestFacts answered_request() {
  RequestFacts facts{.id = "req_1", .protocol = "openai", .method = "POST", .path = "/v1/completions"};
  facts.arrival = std::chrono::system_clock::time_point(std::chrono::seconds(1'000));
  facts.traceparent = kParent;
  facts.model = "m";
  facts.prompt_tokens = 7;
  facts.output_tokens = 3;
  facts.has_first_token = true;
  facts.first_token = milliseconds(50);
  facts.times = {
      .queue = milliseconds(10), .prefill = milliseconds(30), .decode = milliseconds(40), .parse = milliseconds(2)};
  facts.duration = milliseconds(100);
  facts.status = 200;
  facts.delivered = true;
  facts.finish = "length";
  return facts;
}

TEST(Traceparent, IsReadAsTheStandardHasIt) {
  const auto parent = parse_traceparent(kParent);
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(parent->span_id, "b7ad6b7169203331");
  EXPECT_TRUE(parent->sampled);
  EXPECT_FALSE(parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")->sampled);
  EXPECT_TRUE(parse_traceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"));
  for (const char* wrong : {"", "00", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}) {
    EXPECT_FALSE(parse_traceparent(wrong)) << wrong;
  }
}

TEST(TraceExport, ARequestIsASpanWithTheLastPartsOfItsTimeAroundTheFirstToken) {
  const auto document = nlohmann::json::parse(otlp_json({answered_request()}));
  const auto& spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(spans.size(), 5u);
  EXPECT_EQ(spans[0]["name"], "POST /v1/completions");
  EXPECT_EQ(spans[0]["parentSpanId"], "b7ad6b7169203331");
  const auto times = [&](int i) {
    const auto at = [&](const char* name) {
      return std::stoll(spans[i][name].get<std::string>()) / 1'000'000 - 1'000'000;
    };
    EXPECT_EQ(spans[i]["traceId"], "0af7651916cd43dd8448eb211c80319c");
    if (i > 0) {
      EXPECT_EQ(spans[i]["parentSpanId"], spans[0]["spanId"]);
    }
    return std::tuple(spans[i]["name"].get<std::string>(), at("startTimeUnixNano"), at("endTimeUnixNano"));
  };
  EXPECT_EQ(std::get<2>(times(0)), 100);
  EXPECT_EQ(times(1), std::tuple("queue", 10, 20));
  EXPECT_EQ(times(2), std::tuple("prefill", 20, 50));
  EXPECT_EQ(times(3), std::tuple("decode", 50, 90));
  EXPECT_EQ(times(4), std::tuple("parse", 98, 100));
}

TEST(TraceExport, AFileGetsALineAndWhatACollectorDoesNotTakeIsCounted) {
  const std::string path = testing::TempDir() + "traces.jsonl";
  std::remove(path.c_str());
  const auto dropped = std::make_shared<std::atomic<int64_t>>(0);
  {
    auto exporter = TraceExporter::open("http://127.0.0.1:1", path, dropped);
    ASSERT_TRUE(exporter);
    RequestFacts unsampled = answered_request();
    unsampled.traceparent.back() = '0';
    (*exporter)->add(unsampled);
    (*exporter)->add(answered_request());
  }
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(nlohmann::json::parse(line)["resourceSpans"][0]["scopeSpans"][0]["spans"].size(), 5u);
  EXPECT_FALSE(std::getline(file, line));
  EXPECT_EQ(dropped->load(), 1);
}

class CollectorTest : public net::HttpServerTest {};

TEST_F(CollectorTest, GetsTracesOverHttpsIfItsCertificateIsKnown) {
  std::mutex mutex;
  std::vector<std::string> paths;
  start({}, [&](net::HttpRequest request, std::shared_ptr<net::HttpResponse> response) {
    const std::lock_guard lock(mutex);
    paths.push_back(request.path);
    response->send(200, "application/json", "{}");
  });
  const net::Certificates certificates;
  certificates.write("known");
  certificates.write("another");
  server_->set_tls(*certificates.load("known.pem", "known-key.pem"));
  const net::ScopedVariable bundle("CURL_CA_BUNDLE", nullptr);
  const auto lost = [&](const std::string& path, const char* trusted) {
    const net::ScopedVariable file("SSL_CERT_FILE", certificates.path(trusted).c_str());
    const auto dropped = std::make_shared<std::atomic<int64_t>>(0);
    auto exporter = TraceExporter::open(fmt::format("https://127.0.0.1:{}{}", port(), path), "", dropped);
    (*exporter)->add(answered_request());
    exporter->reset();  // which waits for the answer
    return dropped->load();
  };
  EXPECT_EQ(lost("", "known.pem"), 0);
  EXPECT_EQ(lost("/collect/", "known.pem"), 0);
  EXPECT_EQ(lost("", "another.pem"), 1);
  stop();
  EXPECT_EQ(paths, (std::vector<std::string>{"/v1/traces", "/collect"}));
}

TEST(TraceExport, UrlsAndFilesThatCannotBeUsedAreRefused) {
  const auto dropped = std::make_shared<std::atomic<int64_t>>(0);
  EXPECT_FALSE(TraceExporter::open("ftp://127.0.0.1", "", dropped));
  EXPECT_FALSE(TraceExporter::open("localhost", "", dropped));
  EXPECT_FALSE(TraceExporter::open("", "/no/such/folder/file", dropped));
}

}  // namespace
}  // namespace cairn::api
