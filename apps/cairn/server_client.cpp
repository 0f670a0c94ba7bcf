#include "server_client.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "net/listen_address.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kLoopback = "127.0.0.1";
constexpr std::string_view kPort = "8080";
constexpr size_t kBodyShownMax = 300;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

}  // namespace

std::string default_server_url() {
  const std::string port = variable("CAIRN_PORT");
  const auto address = net::parse_listen_address(variable("CAIRN_HOST"));
  if (address && !address->socket.empty()) return "unix:" + address->socket;
  std::string host = address ? address->host : std::string(kLoopback);
  if (host == "0.0.0.0") host = kLoopback;  // a server of every network is on this machine, too
  if (host == "::") host = "::1";
  const std::string_view scheme = variable("CAIRN_TLS_CERT").empty() ? "http" : "https";
  return fmt::format("{}://{}:{}", scheme, net::url_host(host),
                     address && address->port ? std::to_string(*address->port)
                     : port.empty()           ? std::string(kPort)
                                              : port);
}

void ServerFlags::add_to(CLI::App& command) {
  command.add_option("--url", url,
                     fmt::format("Address of the server, as for cairn chat (default: http://{}:{}, or what the "
                                 "variables CAIRN_HOST and CAIRN_PORT say)",
                                 kLoopback, kPort));
  command.add_option("--api-key", api_key, "Key that the server asks for")->envname("CAIRN_API_KEY");
}

Result<std::unique_ptr<ServerClient>> ServerClient::make(const ServerFlags& flags, const std::atomic<bool>* cancelled) {
  const std::string url = flags.url.empty() ? default_server_url() : flags.url;
  CAIRN_TRY(net::ServerAddress server, net::parse_server_address(url));
  return std::unique_ptr<ServerClient>(
      new ServerClient(std::move(server), net::shown_url(url), flags.api_key, cancelled));
}

Result<net::HttpReply> ServerClient::ask(net::HttpCall call, const std::function<void(std::string_view)>& on_data) {
  call.url.insert(0, server_.url);
  call.token = key_;
  call.socket = server_.socket;
  call.cancelled = cancelled_;
  auto reply = client_.request(std::move(call), on_data);
  if (reply || !reply.error().message.starts_with(net::kCannotConnect)) return reply;
  return fail(Code::kUnavailable, "no server answers at {} ({}); start one with: cairn serve", shown_,
              reply.error().message);
}

Result<net::HttpReply> ServerClient::get(const std::string& path, std::chrono::seconds stall) {
  return ask({.url = path, .stall = stall}, {});
}

Result<net::HttpReply> ServerClient::post(const std::string& path, const ordered_json& body,
                                          const std::function<void(std::string_view)>& on_data) {
  return ask({.url = path,
              .body = body.dump(-1, ' ', false, ordered_json::error_handler_t::replace),
              .headers = {{"Content-Type", "application/json"}}},
             on_data);
}

Result<ordered_json> ServerClient::object_of(const net::HttpReply& reply) const {
  if (!reply.success()) return std::unexpected(refusal(reply));
  ordered_json value = ordered_json::parse(reply.body, nullptr, false);
  if (value.is_object()) return value;
  return fail(Code::kUnavailable, "{} answers with something else than JSON: is it a Cairn server?", shown_);
}

Error ServerClient::refusal(const net::HttpReply& reply) const {
  const std::string what = reply.status == kUnauthorized
                               ? fmt::format("{}; give {} with --api-key or CAIRN_API_KEY",
                                             key_.empty() ? "it asks for a key" : "it does not accept this key",
                                             key_.empty() ? "it" : "another")
                               : server_error_text(reply.body);
  return {Code::kUnavailable, fmt::format("the server answered {}: {}", reply.status, what), {}};
}

std::string server_error_text(const std::string& body) {
  const ordered_json error = member_of(ordered_json::parse(body, nullptr, false), "error");
  if (error.is_string()) return error;
  const std::string message = text_member_of(error, "message");
  return message.empty() ? body.substr(0, kBodyShownMax) : message;
}

ordered_json member_of(const ordered_json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? ordered_json() : *found;
}

std::string text_member_of(const ordered_json& object, const char* name) {
  const ordered_json value = member_of(object, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}

double number_member_of(const ordered_json& object, const char* name, double otherwise) {
  const ordered_json value = member_of(object, name);
  return value.is_number() ? value.get<double>() : otherwise;
}

}  // namespace cairn
