#include "hub/hub_requests.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/system/random_id.h"
#include "base/text/printable.h"
#include "base/text/text_file.h"

namespace cairn::hub {
namespace {

constexpr size_t kTokenBytesMax = 1 << 10;
constexpr size_t kTokenFileBytesMax = 2 * kTokenBytesMax;  // in UTF-16, or with line ends
constexpr std::chrono::seconds kWaitMax{60};
constexpr std::chrono::milliseconds kWaitStep{50};  // how soon a wait notices that it is cancelled

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::string> endpoint(const char* variable, std::string_view otherwise) {
  const std::string text = environment(variable);
  if (text.empty()) return std::string(otherwise);
  auto url = net::check_http_url(text);
  if (!url)
    return fail(Code::kInvalidArgument, "{} is \"{}\", which is no URL with http:// or https://", variable,
                printable(text));
  return url;
}

std::filesystem::path token_file() {
  if (const std::string path = environment("HF_TOKEN_PATH"); !path.empty()) return path;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return std::filesystem::path(home) / "token";
  const std::string cache = environment("XDG_CACHE_HOME");
  if (!cache.empty()) return std::filesystem::path(cache) / "huggingface" / "token";
  return std::filesystem::path(environment("HOME")) / ".cache/huggingface/token";
}

Result<std::string> read_token() {
  std::string token = environment("HF_TOKEN");
  std::string place = "HF_TOKEN";
  if (token.empty()) {
    const std::filesystem::path path = token_file();
    place = path.string();
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return token;
    CAIRN_TRY(token, read_text_file(place, "the token of Hugging Face", kTokenFileBytesMax));
  }
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())) != 0) token.pop_back();
  // What would end the header.
  if (token.size() > kTokenBytesMax || std::ranges::any_of(token, [](char c) { return c <= ' ' || c > '~'; }))
    return fail(Code::kInvalidArgument, "{} holds no token of Hugging Face: spaces or other signs are in it", place);
  return token;
}

/// The message in a hub's error: {"error": "..."} of Hugging Face, {"errors": [{"message": "..."}]} of Ollama. It is
/// looked for as text, because the body may be cut or no JSON at all.
std::string message_in(std::string_view body) {
  for (const std::string_view key : {"\"message\":\"", "\"error\":\""}) {
    const size_t begin = body.find(key);
    if (begin == std::string_view::npos) continue;
    const std::string_view rest = body.substr(begin + key.size());
    return ": " + printable(rest.substr(0, rest.find('"')), kEchoBytesMax);
  }
  return {};
}

std::chrono::seconds seconds_of(std::string_view text) {
  int seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::clamp(std::chrono::seconds(seconds), std::chrono::seconds(0), kWaitMax);
}

}  // namespace

Result<Endpoints> Endpoints::from_environment() {
  Endpoints endpoints;
  CAIRN_TRY(endpoints.hugging_face, endpoint("HF_ENDPOINT", kHuggingFaceEndpoint));
  CAIRN_TRY(endpoints.ollama, endpoint("CAIRN_OLLAMA_REGISTRY", kOllamaEndpoint));
  CAIRN_TRY(endpoints.token, read_token());
  return endpoints;
}

std::optional<net::HttpFailure> failure_of(const net::HttpTransfer& transfer) {
  if (auto failed = transfer.failure()) return failed;
  const net::HttpHead& head = transfer.head();
  const int status = head.status;
  if (status == 200 || status == 206) return std::nullopt;
  const bool passes = status == 408 || status == 429 || status >= 500;
  const Code kind = status == 404 ? Code::kNotFound : passes ? Code::kUnavailable : Code::kInvalidArgument;
  return net::HttpFailure{{kind,
                           fmt::format("{} is answered {}{}", net::shown_url(transfer.call().url), status,
                                       message_in(transfer.error_body())),
                           {}},
                          passes,
                          seconds_of(head.header("retry-after"))};
}

std::chrono::milliseconds wait_before(int attempt, std::chrono::milliseconds first, std::chrono::seconds retry_after) {
  constexpr int kDoublingsMax = 16;
  const auto doubled = first * (int64_t{1} << std::clamp(attempt - 1, 0, kDoublingsMax));
  const auto bounded = std::min<std::chrono::milliseconds>(doubled, kWaitMax);
  const auto random =
      bounded * static_cast<int64_t>(secure_random() % 256) / 1024;  // so that clients do not return together
  return std::max<std::chrono::milliseconds>(bounded + random, retry_after);
}

bool wait_unless(const std::atomic<bool>& cancelled, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!cancelled.load()) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= left.zero()) return true;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kWaitStep));
  }
  return false;
}

Result<net::HttpReply> fetch_text(net::HttpCall call, size_t bytes_max, int attempts,
                                  std::chrono::milliseconds first_wait, const std::atomic<bool>& cancelled) {
  call.cancelled = &cancelled;
  net::HttpClient client;
  for (int attempt = 1;; ++attempt) {
    net::HttpReply reply;
    bool too_large = false;
    net::HttpTransfer transfer(call, [&](const net::HttpHead&, std::string_view bytes) {
      too_large = reply.body.size() + bytes.size() > bytes_max;
      if (!too_large) reply.body += bytes;
      return !too_large;
    });
    CAIRN_TRY_VOID(client.run(transfer));
    if (too_large)
      return fail(Code::kTooLarge, "the answer of {} is longer than {} bytes", printable(call.url), bytes_max);
    const auto failed = failure_of(transfer);
    if (!failed) {
      static_cast<net::HttpHead&>(reply) = transfer.head();
      return reply;
    }
    if (!failed->may_pass || attempt >= attempts) return std::unexpected(failed->error);
    if (!wait_unless(cancelled, wait_before(attempt, first_wait, failed->retry_after)))
      return fail(Code::kCancelled, "stopped");
  }
}

std::string url_path(std::string_view path) {
  std::string url;
  for (const unsigned char letter : path) {
    const bool plain = std::isalnum(letter) != 0 ||
                       std::string_view("-._~/").find(static_cast<char>(letter)) != std::string_view::npos;
    url += plain ? std::string(1, static_cast<char>(letter)) : fmt::format("%{:02X}", letter);
  }
  return url;
}

}  // namespace cairn::hub
