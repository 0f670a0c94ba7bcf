/// One request of `cairn bench serve` and the measurements of its answer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/workload.h"
#include "net/http/http_client.h"

namespace cairn::bench {

using TimePoint = std::chrono::steady_clock::time_point;

enum class Endpoint { kChat, kCompletions };

struct Target {
  net::ServerAddress server;
  Endpoint endpoint = Endpoint::kChat;
  std::string model;  ///< empty: the request names no model
  std::string api_key;
  int32_t max_tokens = 48;
  double temperature = 0;
  nlohmann::ordered_json extra;  ///< an object whose fields are added to every request
  std::chrono::seconds timeout{600};
};

struct Sample {
  int64_t index = 0;
  Mix mix = Mix::kChat;
  TimePoint due;                   ///< when it should be sent
  TimePoint ended;                 ///< last byte, or failure
  int status = 0;                  ///< 0: there was no answer
  std::string error;               ///< empty: answered to the end
  std::optional<double> first_ms;  ///< from due time to the first text
  int64_t chunks = 0;              ///< number of chunks with text
  std::vector<float> gaps_ms;      ///< between chunks with text
  bool has_usage = false;          ///< otherwise completion_tokens counts chunks, and the other counts are 0
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;

  bool answered() const { return error.empty(); }
  double total_ms() const { return std::chrono::duration<double, std::milli>(ended - due).count(); }
};

/// Sends a job and waits for the end of the stream; `answer` becomes its text. Stops early once `interrupted`.
Sample ask(const Target& target, const Job& job, TimePoint due, const std::atomic<bool>& interrupted,
           std::string& answer);

/// The first model that the server lists. Errors: those of net::HttpClient::request; kUnavailable (the answer is not a
/// list).
Result<std::string> first_model(const Target& target);

}  // namespace cairn::bench
