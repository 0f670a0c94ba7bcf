/// The answer of a request whose model may have to be loaded first.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// The header that names the model which answers.
inline constexpr const char* kModelHeader = "X-Cairn-Model";

/// Passes everything on, with kModelHeader. Once the client of a stream has been told to wait, what would have been an
/// answer as a whole is an event of it.
class ModelResponse final : public net::HttpResponse {
 public:
  ModelResponse(std::shared_ptr<net::HttpResponse> response, const std::string& model, ErrorFormat format);

  /// Begins an event stream with a comment that the model is being loaded; net/ sends others while it is silent.
  void tell_loading();

  std::string_view request_id() const override { return response_->request_id(); }
  void send(int status, std::string_view content_type, std::string body,
            std::vector<std::pair<std::string, std::string>> headers) override;
  void begin_events(std::vector<std::pair<std::string, std::string>> headers, net::StreamFormat form) override;
  void write(std::string_view bytes) override { response_->write(bytes); }
  void end() override { response_->end(); }
  void on_close(std::function<void()> callback) override { response_->on_close(std::move(callback)); }
  bool closed() const override { return response_->closed(); }
  size_t unsent_bytes() const override { return response_->unsent_bytes(); }
  void on_drained(size_t bytes, std::function<void()> callback) override {
    response_->on_drained(bytes, std::move(callback));
  }
  void post(std::function<void()> work) override { response_->post(std::move(work)); }

 private:
  const std::shared_ptr<net::HttpResponse> response_;
  const std::string model_;  // as the header has it
  const ErrorFormat format_;
  std::mutex mutex_;  // guards the two below
  bool answered_ = false;
  bool told_ = false;
};

}  // namespace cairn::api
