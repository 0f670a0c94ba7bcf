/// Sampled turns with calls in the file of --store, for a server that is started again.
///
/// A turn is written before the client is told that its answer is done, as responses are: see responses/store.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "api/chat/sampled_turns.h"
#include "base/error.h"

namespace cairn::api {

class StoreFile;

struct TurnStoreLimits {
  int64_t turns_max = 100'000;  ///< the oldest go when there are more
  int64_t bytes_max = 1 << 30;  ///< of all turns; the oldest go when there are more
};

/// Thread-safe; may wait for a disk, and for another process that writes to the file. Errors: kIo, kCorruptFile with
/// the file's path.
class TurnStore {
 public:
  static Result<std::unique_ptr<TurnStore>> open(std::shared_ptr<StoreFile> file, const TurnStoreLimits& limits = {});
  virtual ~TurnStore() = default;

  /// `turn` has calls; the first one's id is what it is found by.
  virtual Result<void> put(const TurnScope& scope, const SampledTurn& turn) = 0;
  /// nullopt: there is none. kCorruptFile: it was not what put() writes, and has been forgotten.
  virtual Result<std::optional<SampledTurn>> find(const TurnScope& scope, std::string_view first_call) = 0;
};

}  // namespace cairn::api
