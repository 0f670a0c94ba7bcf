#include "api/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <map>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "api/tokenize_endpoints.h"

namespace cairn::api {
namespace {

using testing::HasSubstr;

/// Remembers its answer, and waits for it.
class FakeResponse final : public net::HttpResponse {
 public:
  void send(int status, std::string_view, std::string body,
            std::vector<std::pair<std::string, std::string>> headers) override {
    const std::lock_guard lock(mutex_);
    if (status_ != 0) return;
    status_ = status;
    body_ = std::move(body);
    headers_ = std::move(headers);
    answered_.notify_all();
  }
  void begin_events(std::vector<std::pair<std::string, std::string>>, net::StreamFormat) override {}
  void write(std::string_view) override {}
  void end() override {}
  void on_close(std::function<void()>) override {}
  bool closed() const override { return closed_; }
  size_t unsent_bytes() const override { return 0; }
  void on_drained(size_t, std::function<void()>) override {}
  void post(std::function<void()>) override {}

  int wait() {
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [&] { return status_ != 0; });
    return status_;
  }
  const std::string& body() const { return body_; }
  std::atomic<bool> closed_ = false;

 private:
  std::mutex mutex_;
  std::condition_variable answered_;
  int status_ = 0;
  std::string body_;
  std::vector<std::pair<std::string, std::string>> headers_;
};

net::HttpRequest post(std::string path, std::string body) {
  net::HttpRequest request;
  request.id = "req_1";
  request.method = "POST";
  request.path = std::move(path);
  request.body = std::move(body);
  return request;
}

TEST(Service, WhatAHandlerThrowsIsAnsweredInItsProtocol) {
  const loader::Registry registry;
  Service service(registry);
  const auto answer = [&](ErrorFormat format, const std::function<void()>& work) {
    auto response = std::make_shared<FakeResponse>();
    service.hand_over({.exchange = {service, post("/", "{}"), response, RequestContext()},
                       .errors = format,
                       .handle = [work](Exchange&) {
                         work();
                         return Result<void>();
                       }});
    const int status = response->wait();
    return std::pair(status, response->body());
  };
  auto [status, body] = answer(ErrorFormat::kOpenAi, [] { throw std::bad_alloc(); });
  EXPECT_EQ(status, 503);
  EXPECT_THAT(body, HasSubstr("\"code\":\"out_of_memory\""));
  std::tie(status, body) = answer(ErrorFormat::kAnthropic, [] { throw std::runtime_error("odd"); });
  EXPECT_EQ(status, 500);
  EXPECT_THAT(body, HasSubstr("\"type\":\"api_error\""));
  EXPECT_THAT(body, HasSubstr("unexpected: odd"));
  std::tie(status, body) = answer(ErrorFormat::kOllama, [] { throw 7; });
  EXPECT_EQ(status, 500);
  EXPECT_THAT(body, testing::StartsWith("{\"error\":\""));
}

TEST(Service, AnErrorOfTheHandlerIsAnsweredAsTheExchangeHasErrors) {
  const loader::Registry registry;
  Service service(registry);
  const auto response = std::make_shared<FakeResponse>();
  service.hand_over({.exchange = {service, post("/", "{}"), response, RequestContext(), ErrorFormat::kOllama},
                     .errors = ErrorFormat::kAnthropic,
                     .handle = [](Exchange&) -> Result<void> { return fail(Code::kNotFound, "not here"); }});
  EXPECT_EQ(response->wait(), 404);
  EXPECT_EQ(response->body(), R"({"error":"not here"})");
}

TEST(Service, ARequestThatDoesNotFitIntoTheBudgetIsRefusedAndOthersAreNot) {
  const loader::Registry registry;
  Service service(registry, {.request_bytes = 8'000});
  const auto ask = [&](const std::string& body) {
    auto response = std::make_shared<FakeResponse>();
    service.hand_over({.exchange = {service, post("/tokenize", body), response, RequestContext()},
                       .needs = kNeedsChat,
                       .handle = handle_tokenize});
    return response;
  };
  auto response = ask("{\"prompt\":\"" + std::string(2'000, 'x') + "\"}");
  EXPECT_EQ(response->wait(), 503);
  EXPECT_THAT(response->body(), HasSubstr("--request-bytes"));
  response = ask("{\"prompt\":");
  EXPECT_EQ(response->wait(), 400);
  EXPECT_THAT(response->body(), HasSubstr("not valid JSON"));
  service.stop();
  EXPECT_EQ(service.bytes()->used(), 0);
}

TEST(Service, RequestsOfClientsThatHaveLeftAndThoseAfterTheEndAreNotHandled) {
  const loader::Registry registry;
  Service service(registry);
  bool handled = false;
  const auto handle = [&](Exchange&) {
    handled = true;
    return Result<void>();
  };
  auto gone = std::make_shared<FakeResponse>();
  gone->closed_ = true;
  service.hand_over({.exchange = {service, post("/", "{}"), gone, RequestContext()}, .handle = handle});
  service.stop();
  auto late = std::make_shared<FakeResponse>();
  service.hand_over({.exchange = {service, post("/", "{}"), late, RequestContext()}, .handle = handle});
  EXPECT_EQ(late->wait(), 503);
  EXPECT_FALSE(handled);
}

TEST(Service, TheBudgetFollowsTheMemoryThatThereIs) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(default_request_bytes(0), 16 * kMiB);
  EXPECT_EQ(default_request_bytes(1'000 * kMiB), 125 * kMiB);
  EXPECT_EQ(default_request_bytes(int64_t{1} << 40), 1'024 * kMiB);
}

/// What a request of the protocol that says nothing is sampled with: temperature, top_k, top_p, min_p.
std::vector<double> sampling_of(const Service& service, Protocol protocol) {
  RequestContext context;
  service.answer_by(context, nullptr, protocol);
  sampling::SamplingParams sampling;
  context.defaults().sampling.apply(sampling);
  std::vector<double> values;
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters()) {
    const double value = parameter.get(sampling);
    if (values.size() < 4) {
      values.push_back(parameter.whole() ? value : std::round(value * 1'000) / 1'000);
    } else {
      EXPECT_EQ(value, parameter.get(sampling::SamplingParams())) << parameter.name;
    }
  }
  return values;
}

constexpr Protocol kEveryProtocol[] = {Protocol::kOpenAi,   Protocol::kAnthropic, Protocol::kOllama,
                                       Protocol::kLlamaCpp, Protocol::kLmStudio,  Protocol::kResponses,
                                       Protocol::kCairn};

const std::vector<double> kUsualSampling = {0.8, 40, 0.95, 0.05};

TEST(Service, WhatNobodyAsksForIsSampledTheSameInEveryProtocol) {
  const loader::Registry registry;
  const Service service(registry);
  for (const Protocol protocol : kEveryProtocol)
    EXPECT_EQ(sampling_of(service, protocol), kUsualSampling) << protocol_name(protocol);
}

TEST(Service, OpenAisEndpointsAndAnthropicsMayHaveOpenAisSampling) {
  const loader::Registry registry;
  ServiceOptions options{.openai_sampling = true};
  const Service service(registry, options);
  for (const Protocol protocol : kEveryProtocol) {
    const bool is_openai =
        protocol == Protocol::kOpenAi || protocol == Protocol::kResponses || protocol == Protocol::kAnthropic;
    EXPECT_EQ(sampling_of(service, protocol), is_openai ? std::vector<double>({1, 0, 1, 0}) : kUsualSampling)
        << protocol_name(protocol);
  }
  options.defaults.sampling.set(sampling::sampling_parameters().front(), 0.25);
  const Service warmer(registry, options);
  EXPECT_THAT(sampling_of(warmer, Protocol::kOpenAi), testing::ElementsAre(0.25, 0, 1, 0));
  EXPECT_THAT(sampling_of(warmer, Protocol::kOllama), testing::ElementsAre(0.25, 40, 0.95, 0.05));
}

TEST(Service, WhatAFileRecommendsComesAfterTheServersSettingsAndBeforeTheDefaults) {
  const loader::Registry registry;
  ServiceOptions options;
  options.defaults.sampling.set(sampling::sampling_parameters().front(), 0.25);
  const Service service(registry, options);
  std::map<std::string_view, gguf::Value> recommended;
  recommended["general.sampling.temp"] = {gguf::ValueType::kF32, 0.5};
  recommended["general.sampling.top_p"] = {gguf::ValueType::kF32, 0.75};
  const gguf::Metadata file(std::move(recommended));
  const sampling::GivenParameters sampling = service.generation_defaults("m", file).sampling;
  EXPECT_EQ(sampling.get("temperature"), 0.25);
  EXPECT_EQ(sampling.get("top_p"), 0.75);
  EXPECT_EQ(sampling.get("top_k"), 40);
}

TEST(Service, WorkingBytesGrowWithTheDocumentAndNotOnlyWithItsText) {
  const std::string text = "{\"a\":\"" + std::string(10'000, 'x') + "\"}";
  std::string many = "{\"a\":[";
  while (many.size() < 10'000) many += "[],";
  many += "[]]}";
  EXPECT_GT(working_bytes(text), 8 * 10'000);
  EXPECT_GT(working_bytes(many), 2 * working_bytes(text));
}

}  // namespace
}  // namespace cairn::api
