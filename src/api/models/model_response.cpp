#include "api/models/model_response.h"

#include <fmt/format.h>

#include <string_view>

namespace cairn::api {
namespace {

/// Bytes that headers cannot have are percent-encoded.
std::string header_value(const std::string& name) {
  std::string value;
  for (const char c : name) {
    const bool plain = c > ' ' && c <= '~' && c != '%';
    value += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return value;
}

}  // namespace

ModelResponse::ModelResponse(std::shared_ptr<net::HttpResponse> response, const std::string& model, ErrorFormat format)
    : ForwardedResponse(std::move(response)), model_(header_value(model)), format_(format) {}

void ModelResponse::tell_loading() {
  const std::lock_guard lock(mutex_);
  if (answered_) return;
  told_ = true;
  inner().begin_events({{kModelHeader, model_}}, {});
  inner().write(fmt::format(": {} is being loaded\n\n", model_));
}

void ModelResponse::send(int status, std::string_view content_type, std::string body,
                         std::vector<std::pair<std::string, std::string>> headers) {
  const std::lock_guard lock(mutex_);
  answered_ = true;
  if (!told_) {
    headers.emplace_back(kModelHeader, model_);
    return inner().send(status, content_type, std::move(body), std::move(headers));
  }
  std::string event = format_ == ErrorFormat::kAnthropic && status >= 400 ? "event: error\n" : "";
  event += fmt::format("data: {}\n\n", body);
  if (format_ != ErrorFormat::kAnthropic) event += "data: [DONE]\n\n";
  inner().write(event);
  inner().end();
}

void ModelResponse::begin_events(std::vector<std::pair<std::string, std::string>> headers, net::StreamFormat form) {
  const std::lock_guard lock(mutex_);
  answered_ = true;
  headers.emplace_back(kModelHeader, model_);
  inner().begin_events(std::move(headers), form);
}

}  // namespace cairn::api
