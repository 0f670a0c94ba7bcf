/// Responses that are kept: what previous_response_id, item_reference, GET and DELETE need.
///
/// In the file of --store a response is written whole, in one transaction, before the client is told that it is done:
/// whoever saw its end finds it again after kill -9. Without it recent ones are in memory (recent_responses.h).
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::api {

class StoreFile;

struct ResponseStoreLimits {
  int64_t responses_max = 1'000'000;        ///< the oldest go when there are more
  int64_t file_bytes_max = 16ll << 30;      ///< the oldest go when it holds more
  size_t chain_max = 4'096;                 ///< responses of one conversation
  size_t history_bytes_max = 32ull << 20;   ///< of their items, as JSON
  size_t response_bytes_max = 64ull << 20;  ///< of one, with its input
};

struct StoredResponse {
  std::string tenant;  ///< nobody else finds it
  std::string previous_id;
  nlohmann::ordered_json response;  ///< with an id
  nlohmann::ordered_json input;     ///< array of items with ids
};

/// Thread-safe; may wait for a disk, and for another process that writes to the file. Errors: kNotFound; kIo,
/// kCorruptFile with the file's path; else as said.
class ResponseStore {
 public:
  static Result<std::unique_ptr<ResponseStore>> open(std::shared_ptr<StoreFile> file,
                                                     const ResponseStoreLimits& limits = {});
  virtual ~ResponseStore() = default;

  /// kTooLarge: over response_bytes_max.
  virtual Result<void> put(const StoredResponse& response) = 0;
  virtual Result<nlohmann::ordered_json> response(std::string_view tenant, std::string_view id) = 0;
  virtual Result<nlohmann::ordered_json> input(std::string_view tenant, std::string_view id) = 0;
  /// What was sampled for its calls goes too; responses that go on from it lose their history.
  virtual Result<void> remove(std::string_view tenant, std::string_view id) = 0;
  /// Input and output items of the response and of all before it, oldest first. kTooLarge: over chain_max or
  /// history_bytes_max.
  virtual Result<nlohmann::ordered_json> history(std::string_view tenant, std::string_view id) = 0;
  /// An input or output item of any response. Adds to `bytes_read` what was read of the file for it.
  virtual Result<nlohmann::ordered_json> item(std::string_view tenant, std::string_view id, size_t& bytes_read) = 0;
};

}  // namespace cairn::api
