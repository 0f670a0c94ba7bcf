#include "api/ollama/unload.h"

#include <nlohmann/json.hpp>

#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"

namespace cairn::api::ollama {
namespace {

constexpr std::string_view kChatPath = "/api/chat", kGeneratePath = "/api/generate";

}  // namespace

bool unloads(std::string_view path, const ModelRequest& request) {
  const bool now = request.keep_alive && request.keep_alive->time == std::chrono::milliseconds(0);
  return now && request.asks_nothing && (path == kChatPath || path == kGeneratePath);
}

void send_unloaded(std::string_view path, const ModelRequest& request, const std::string& model,
                   net::HttpResponse& response) {
  nlohmann::ordered_json value = {{"model", request.model.empty() ? model : request.model},
                                  {"created_at", rfc3339_now()}};
  if (path == kChatPath) {
    value["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    value["response"] = "";
  }
  value["done"] = true;
  value["done_reason"] = "unload";
  std::string body = dump(value);
  if (request.stream) body += '\n';
  response.send(200, request.stream ? "application/x-ndjson" : "application/json", std::move(body));
}

}  // namespace cairn::api::ollama
