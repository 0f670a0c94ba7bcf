/// An answer that goes through another one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/http/http_server.h"

namespace cairn::net {

/// Passes everything on to `response`; classes that change a part of it derive from this one. Thread-safe as that is.
class ForwardedResponse : public HttpResponse {
 public:
  explicit ForwardedResponse(std::shared_ptr<HttpResponse> response) : response_(std::move(response)) {}

  std::string_view request_id() const override { return response_->request_id(); }
  void send(int status, std::string_view content_type, std::string body,
            std::vector<std::pair<std::string, std::string>> headers) override {
    response_->send(status, content_type, std::move(body), std::move(headers));
  }
  void begin_events(std::vector<std::pair<std::string, std::string>> headers, StreamFormat form) override {
    response_->begin_events(std::move(headers), form);
  }
  void write(std::string_view bytes) override { response_->write(bytes); }
  void end() override { response_->end(); }
  void on_close(std::function<void()> callback) override { response_->on_close(std::move(callback)); }
  void on_end(std::function<void(const ExchangeState&)> callback) override { response_->on_end(std::move(callback)); }
  bool closed() const override { return response_->closed(); }
  size_t unsent_bytes() const override { return response_->unsent_bytes(); }
  void on_drained(size_t bytes, std::function<void()> callback) override {
    response_->on_drained(bytes, std::move(callback));
  }
  void post(std::function<void()> work) override { response_->post(std::move(work)); }

 protected:
  HttpResponse& inner() const { return *response_; }

 private:
  const std::shared_ptr<HttpResponse> response_;
};

}  // namespace cairn::net
