/// Who asks, once a request has been let in.
#pragma once

#include <memory>
#include <string>

#include "api/access/key_file.h"
#include "api/access/rate_meter.h"
#include "loader/model_scope.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// The owner of a key; or, where none is needed, an address or anybody. Immutable, but for its meter.
class Principal final : public net::RequestOwner {
 public:
  /// Anybody: nothing is forbidden or counted.
  Principal() = default;
  /// An address, which may do everything up to what the meter allows.
  explicit Principal(std::shared_ptr<RateMeter> meter) : meter_(std::move(meter)) {}
  Principal(KeyRules rules, std::shared_ptr<RateMeter> meter);

  /// The key's name; empty without one.
  const std::string& name() const { return rules_.name; }
  const loader::ModelScope& models() const { return models_; }
  bool may_use(std::string_view model, const std::vector<std::string>& aliases = {}) const {
    return models_.shows(model, aliases);
  }
  /// May fetch, delete, load and unload models.
  bool may_manage() const { return rules_.manages; }
  /// Nothing of its requests may be written to a disk.
  bool no_disk() const { return rules_.no_disk; }
  /// Whether its requests go behind interactive ones, whatever they say.
  bool only_batch() const { return rules_.priority == engine::Priority::kBatch; }
  /// Null: nothing is counted.
  const std::shared_ptr<RateMeter>& meter() const { return meter_; }

 private:
  KeyRules rules_{.manages = true};
  loader::ModelScope models_;
  std::shared_ptr<RateMeter> meter_;
};

/// Who sent a request that was let in; anybody where nobody was asked for a key.
const Principal& principal_of(const net::HttpRequest& request);

}  // namespace cairn::api
