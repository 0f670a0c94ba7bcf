/// A running server that commands ask: `cairn chat --url`, ps and stop.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "net/http/http_client.h"

namespace cairn {

/// The status of an answer to whoever gives no key, or a wrong one.
inline constexpr int kUnauthorized = 401;

/// Where `cairn serve` listens unless its flags say otherwise: the variables CAIRN_HOST and CAIRN_PORT, else
/// http://127.0.0.1:8080.
std::string default_server_url();

/// Which server a command asks, and with what key.
struct ServerFlags {
  std::string url;  ///< empty: default_server_url()
  std::string api_key;

  void add_to(CLI::App& command);
};

/// One thread at a time.
class ServerClient {
 public:
  /// `cancelled` ends what is asked (kCancelled) and may be null. Errors: kInvalidArgument, the URL is none.
  static Result<std::unique_ptr<ServerClient>> make(const ServerFlags& flags, const std::atomic<bool>* cancelled);

  /// The address, without what may be secret in it.
  const std::string& shown() const { return shown_; }
  /// Errors: those of net::HttpClient::request; where nothing listens they say how to start a server.
  Result<net::HttpReply> get(const std::string& path, std::chrono::seconds stall = net::HttpCall().stall);
  /// The same with a body. The answer's body goes to `on_data` as it comes, if there is one.
  Result<net::HttpReply> post(const std::string& path, const nlohmann::ordered_json& body,
                              const std::function<void(std::string_view)>& on_data = {});
  /// The JSON object of a success. Errors: refusal()'s; kUnavailable, it is none.
  Result<nlohmann::ordered_json> object_of(const net::HttpReply& reply) const;
  /// What an answer that is no success says; of a key that is missing or wrong, how to give it.
  Error refusal(const net::HttpReply& reply) const;

 private:
  ServerClient(net::ServerAddress server, std::string shown, std::string key, const std::atomic<bool>* cancelled)
      : server_(std::move(server)), shown_(std::move(shown)), key_(std::move(key)), cancelled_(cancelled) {}
  Result<net::HttpReply> ask(net::HttpCall call, const std::function<void(std::string_view)>& on_data);

  const net::ServerAddress server_;
  const std::string shown_;
  const std::string key_;
  const std::atomic<bool>* const cancelled_;
  net::HttpClient client_;
};

/// The message of an error's body, or the beginning of the body itself.
std::string server_error_text(const std::string& body);
/// The member of an object; null where there is none.
nlohmann::ordered_json member_of(const nlohmann::ordered_json& object, const char* name);
/// The text of such a member; empty where there is none.
std::string text_member_of(const nlohmann::ordered_json& object, const char* name);
/// The number of such a member.
double number_member_of(const nlohmann::ordered_json& object, const char* name, double otherwise);

}  // namespace cairn
