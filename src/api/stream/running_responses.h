/// Responses that are being answered now, for GET and cancel.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cairn::api {

class RunningResponse {
 public:
  virtual ~RunningResponse() = default;
  virtual const std::string& tenant() const = 0;
  virtual bool stored() const = 0;
  /// The response object as it is now.
  virtual nlohmann::ordered_json now() const = 0;
  /// Ends it, and returns the response object with which it ends.
  virtual nlohmann::ordered_json cancel() = 0;
};

/// Thread: the server's.
class RunningResponses {
 public:
  /// `response` calls remove before it is gone.
  void add(const std::string& id, RunningResponse& response) { by_id_[id] = &response; }
  void remove(const std::string& id) { by_id_.erase(id); }
  /// Null if there is none, or it is another tenant's.
  RunningResponse* find(std::string_view tenant, std::string_view id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() || found->second->tenant() != tenant ? nullptr : found->second;
  }

 private:
  std::map<std::string, RunningResponse*, std::less<>> by_id_;
};

}  // namespace cairn::api
