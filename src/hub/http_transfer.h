/// HTTP requests to hubs, over libcurl: redirects, proxies (HTTPS_PROXY, NO_PROXY) and certificates are its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::hub {

inline constexpr int kRedirectsMax = 10;
inline constexpr std::chrono::seconds kConnectTimeout{20};

/// Where the hubs are. Tests and mirrors set others.
inline constexpr std::string_view kHuggingFaceEndpoint = "https://huggingface.co";
inline constexpr std::string_view kOllamaEndpoint = "https://registry.ollama.ai";

struct Endpoints {
  std::string hugging_face{kHuggingFaceEndpoint};
  std::string ollama{kOllamaEndpoint};
  std::string token;  ///< of Hugging Face; empty: none

  /// HF_ENDPOINT, CAIRN_OLLAMA_REGISTRY; HF_TOKEN, else the file that Hugging Face's own program writes
  /// (HF_TOKEN_PATH, $HF_HOME/token, ~/.cache/huggingface/token). Errors: kInvalidArgument, which names the variable.
  static Result<Endpoints> from_environment();
};

/// Some bytes of a file, the last one excluded.
struct ByteSpan {
  int64_t begin = 0, end = 0;
  int64_t bytes() const { return end - begin; }
  bool operator==(const ByteSpan&) const = default;
};

struct HttpQuery {
  std::string url;
  std::string token;                             ///< sent to the URL's own host, scheme and port alone; empty: none
  std::string accept;                            ///< empty: anything
  std::optional<ByteSpan> range;                 ///< asks for these bytes
  std::string if_range;                          ///< entity tag that the range belongs to; empty: any
  const std::atomic<bool>* cancelled = nullptr;  ///< ends the transfer when it becomes true; null: nothing does
  std::chrono::seconds stall{30};                ///< without a byte for so long, the transfer fails
};

/// The last answer of a transfer, after redirects.
struct HttpHead {
  int status = 0;
  std::string url;                             ///< that was asked in the end
  std::map<std::string, std::string> headers;  ///< names in lower case

  std::string_view header(const std::string& name) const;
};

/// How a transfer ended that has no usable answer. `retry` says whether it may pass.
struct HttpFailure {
  Error error;
  int status = 0;  ///< 0: no answer came
  bool retry = false;
  std::chrono::seconds retry_after{0};
};

/// One request. The body of 200 and 206 goes to `sink`, of which false ends the transfer. One thread at a time.
class HttpTransfer {
 public:
  using Sink = std::function<bool(const HttpHead& head, std::string_view bytes)>;
  HttpTransfer(HttpQuery query, Sink sink);
  ~HttpTransfer();
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  /// libcurl's handle, for its multi interface.
  void* handle() const;
  const HttpHead& head() const;
  /// After it has ended with libcurl's `code`: nullopt for 200 and 206, whole.
  std::optional<HttpFailure> failure(int code) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A small answer.
struct HttpText {
  HttpHead head;
  std::string body;
};
/// Asks once and, where that may pass, up to `attempts` times with growing waits. Blocks. Errors: kNotFound (404),
/// kInvalidArgument (401, 403 and what else is the request's fault), kTooLarge (over `bytes_max`), kUnavailable (the
/// rest), kCancelled.
Result<HttpText> fetch_text(const HttpQuery& query, size_t bytes_max, int attempts,
                            std::chrono::milliseconds first_wait, const std::atomic<bool>& cancelled);

/// The time to wait before attempt `attempt`, counted from 1: it doubles, has a bound and a random part.
std::chrono::milliseconds wait_before(int attempt, std::chrono::milliseconds first, std::chrono::seconds retry_after);
/// Waits, unless `cancelled` becomes true. False: it did.
bool wait_unless(const std::atomic<bool>& cancelled, std::chrono::milliseconds time);

/// A path as part of a URL: what is no letter, digit or one of "-._~/" as %XX.
std::string url_path(std::string_view path);

}  // namespace cairn::hub
