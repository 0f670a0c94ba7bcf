/// Sampled turns in the file of --store, for a server that is started again.
///
/// A turn is written before the client is told that its answer is done, as responses are: see response_store.h.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "chat/sampled_turns.h"

namespace cairn::api {

class StoreFile;

struct TurnStoreLimits {
  int64_t turns_max = 100'000;  ///< the oldest go when there are more
  int64_t bytes_max = 1 << 30;  ///< of all turns; the oldest go when there are more
};

/// Errors of it, and of what is opened: kIo, kCorruptFile with the file's path. May wait for another process that
/// writes to the file.
Result<std::unique_ptr<chat::TurnStore>> open_turn_store(std::shared_ptr<StoreFile> file,
                                                         const TurnStoreLimits& limits = {});

}  // namespace cairn::api
