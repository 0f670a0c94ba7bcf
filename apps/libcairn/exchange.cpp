#include "exchange.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "api/errors.h"

namespace cairn::library {
namespace {

constexpr int kOk = 200;

/// One answer, and the work that whoever waits for it does meanwhile.
class LocalResponse final : public net::HttpResponse {
 public:
  void send(int status, std::string_view, std::string body, std::vector<std::pair<std::string, std::string>>) override {
    const std::lock_guard lock(mutex_);
    if (status_ != 0) return;
    status_ = status;
    body_ = std::move(body);
    condition_.notify_all();
  }
  // No endpoint that is called here streams.
  void begin_events(std::vector<std::pair<std::string, std::string>>, net::StreamFormat) override {}
  void write(std::string_view) override {}
  void end() override {}
  void on_close(std::function<void()> callback) override { on_close_ = std::move(callback); }
  bool closed() const override {
    const std::lock_guard lock(mutex_);
    return status_ != 0;
  }
  size_t unsent_bytes() const override { return 0; }
  void on_drained(size_t, std::function<void()> callback) override { post(std::move(callback)); }
  void post(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    condition_.notify_all();
  }

  /// Works until there is an answer, and returns its status.
  int wait() {
    const auto done = [&] { return status_ != 0; };
    std::unique_lock lock(mutex_);
    while (!done()) {
      condition_.wait(lock, [&] { return done() || !work_.empty(); });
      if (done()) break;
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
    return status_;
  }
  /// Lets go of what the exchange holds. Called once nobody waits any more.
  void close() {
    if (on_close_) std::exchange(on_close_, {})();
    const std::lock_guard lock(mutex_);
    work_.clear();
  }
  std::string take_body() { return std::move(body_); }

 private:
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<std::function<void()>> work_;
  std::function<void()> on_close_;  // of the thread that waits
  int status_ = 0;                  // 0: no answer yet
  std::string body_;
};

/// The error that the endpoint has answered with.
Error error_of(const std::string& body) {
  constexpr std::array kCodes = {Code::kInvalidArgument, Code::kNotFound,    Code::kUnsupported,
                                 Code::kTooLarge,        Code::kOutOfMemory, Code::kContextLengthExceeded,
                                 Code::kQueueFull,       Code::kUnavailable, Code::kCancelled};
  const auto json = nlohmann::ordered_json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("error")) return {Code::kInternal, body, {}};
  const auto& said = json["error"];
  Error error{Code::kInternal, said.value("message", body), {}};
  if (const auto& param = said["param"]; param.is_string()) error.at = param.get<std::string>();
  const auto* const code =
      std::ranges::find(kCodes, said["code"], [](Code each) { return api::wire_error(each).code; });
  if (code != kCodes.end()) error.code = *code;
  return error;
}

}  // namespace

Result<std::string> call(Model& model, Endpoint endpoint, std::string request) {
  const auto response = std::make_shared<LocalResponse>();
  // What runs elsewhere for the exchange may outlive this call, and throwing leaves nothing behind either.
  const struct Closes {
    LocalResponse& response;
    ~Closes() { response.close(); }
  } closes{*response};
  api::Exchange exchange{.service = model.service(), .request = {}, .response = response, .context = model.context()};
  exchange.request.method = "POST";
  exchange.request.body = std::move(request);
  CAIRN_TRY_VOID(endpoint(exchange));
  if (response->wait() == kOk) return response->take_body();
  return std::unexpected(error_of(response->take_body()));
}

}  // namespace cairn::library
