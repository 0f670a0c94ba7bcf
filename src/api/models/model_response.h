/// The answer of a request whose model may have to be loaded first.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "net/http/forwarded_response.h"

namespace cairn::api {

/// The header that names the model which answers.
inline constexpr const char* kModelHeader = "X-Cairn-Model";

/// Passes everything on, with kModelHeader. Once the client of a stream has been told to wait, what would have been an
/// answer as a whole is an event of it.
class ModelResponse final : public net::ForwardedResponse {
 public:
  ModelResponse(std::shared_ptr<net::HttpResponse> response, const std::string& model, ErrorFormat format);

  /// Begins an event stream with a comment that the model is being loaded; net/ sends others while it is silent.
  void tell_loading();

  void send(int status, std::string_view content_type, std::string body,
            std::vector<std::pair<std::string, std::string>> headers) override;
  void begin_events(std::vector<std::pair<std::string, std::string>> headers, net::StreamFormat form) override;

 private:
  const std::string model_;  // as the header has it
  const ErrorFormat format_;
  std::mutex mutex_;  // guards the two below
  bool answered_ = false;
  bool told_ = false;
};

}  // namespace cairn::api
