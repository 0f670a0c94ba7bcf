/// What the endpoints share besides the models.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/chat/sampled_turns.h"
#include "api/responses/running.h"
#include "api/responses/store.h"
#include "registry/registry.h"
#include "sampling/text_ban.h"

namespace cairn::api {

/// Thread: the server's.
class Service {
 public:
  /// `registry` outlives this.
  explicit Service(const Registry& registry) : registry_(registry) {}

  const Registry& registry() const { return registry_; }
  SampledTurns& turns() { return turns_; }
  responses::RunningResponses& running_responses() { return running_responses_; }
  /// Keeps responses and sampled turns in this file. Errors: StoreFile::open's.
  Result<void> open_store(const std::string& path);
  /// Null: responses are not stored.
  responses::ResponseStore* response_store() { return response_store_.get(); }
  /// Forbids the beginning of a tool call in the model's format; made when it is asked for first. Null: the format has
  /// no text of its own that begins one.
  std::shared_ptr<const TextBan> call_ban(const LoadedModel& model);

 private:
  const Registry& registry_;
  SampledTurns turns_;
  responses::RunningResponses running_responses_;
  std::unique_ptr<responses::ResponseStore> response_store_;
  std::map<std::string, std::shared_ptr<const TextBan>, std::less<>> call_bans_;
};

}  // namespace cairn::api
