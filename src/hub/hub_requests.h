/// Requests to hubs: where they are, what answers that refuse mean, and when asking again is worth it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/http/http_client.h"

namespace cairn::hub {

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

/// What is wrong with a transfer that has ended; nullopt for 200 and 206, whole. Errors: kNotFound (404),
/// kInvalidArgument (401, 403 and what else is the request's fault), kUnavailable (the rest).
std::optional<net::HttpFailure> failure_of(const net::HttpTransfer& transfer);

/// A small answer. Asks once and, where that may pass, up to `attempts` times with growing waits. Blocks. Errors: those
/// of failure_of, kTooLarge (over `bytes_max`), kCancelled.
Result<net::HttpReply> fetch_text(net::HttpCall call, size_t bytes_max, int attempts,
                                  std::chrono::milliseconds first_wait, const std::atomic<bool>& cancelled);

/// The time to wait before attempt `attempt`, counted from 1: it doubles, has a bound and a random part.
std::chrono::milliseconds wait_before(int attempt, std::chrono::milliseconds first, std::chrono::seconds retry_after);
/// Waits, unless `cancelled` becomes true. False: it did.
bool wait_unless(const std::atomic<bool>& cancelled, std::chrono::milliseconds time);

/// A path as part of a URL: what is no letter, digit or one of "-._~/" as %XX.
std::string url_path(std::string_view path);

}  // namespace cairn::hub
