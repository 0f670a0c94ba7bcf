/// What a request's handler and its parsers know besides the request itself, and what of the request has no effect:
/// that is told once to the log, and to the client that asks for it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/params/field_audit.h"
#include "api/params/generation_defaults.h"
#include "loader/loaded_model.h"
#include "loader/model_scope.h"

namespace cairn::api {

class RequestRecord;

inline constexpr size_t kWarningsMax = 64;         ///< of one request; one more says how many there are besides
inline constexpr size_t kWarningBytesMax = 800;    ///< of each
inline constexpr size_t kNotedNamesMax = 512;      ///< names that the log is told of before it is told no more
inline constexpr size_t kNotedOfRequestMax = 16;   ///< of these, from one request
inline constexpr size_t kNotedNameBytesMax = 200;  ///< of such a name

/// What is settled before a request is read.
struct RequestSettings {
  std::string id{};                         ///< what stands in its path at the {id} of its endpoint's pattern
  loader::ModelScope scope{};               ///< the models that exist for who asks
  bool strict_fields = false;               ///< a field that the endpoint does not know is an error (--strict-fields)
  std::shared_ptr<RequestRecord> record{};  ///< is told what answers the request; null: nobody asks
};

/// Belongs to one request, and goes with it from thread to thread.
class RequestContext {
 public:
  explicit RequestContext(RequestSettings settings = {}) : settings_(std::move(settings)) {}

  const std::string& id() const { return settings_.id; }
  const loader::ModelScope& scope() const { return settings_.scope; }
  bool strict_fields() const { return settings_.strict_fields; }
  const std::shared_ptr<RequestRecord>& record() const { return settings_.record; }

  /// The request is answered by this model, and what it leaves out is as `defaults` say. `model` may be null: see
  /// `model`.
  void set_model(loader::SharedModel model, const GenerationDefaults& defaults) {
    model_ = std::move(model);
    defaults_ = defaults;
  }
  /// Null: none was loaded for the request (Service::find_model).
  const loader::SharedModel& model() const { return model_; }
  /// For what the request leaves out.
  const GenerationDefaults& defaults() const { return defaults_; }

  /// Adds a warning. The log has a line with it the first time that `name` is noted in this process; numbers in
  /// brackets do not make another name of it (messages[2].x is messages[].x).
  void note_ignored(std::string_view name, std::string_view warning);
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// The request says "warnings": true.
  void want_warnings() { wants_warnings_ = true; }
  /// The warnings as a JSON array for the answer; empty if the request does not ask for them.
  std::string wanted_warnings() const;

  /// Tells which fields are read; null: nobody. It outlives this.
  void set_audit(FieldAudit* audit) { audit_ = audit; }
  FieldAudit* audit() const { return audit_; }

 private:
  void add(std::string_view warning);

  RequestSettings settings_;
  loader::SharedModel model_;
  GenerationDefaults defaults_;
  bool wants_warnings_ = false;
  std::vector<std::string> warnings_;
  size_t dropped_ = 0;
  size_t logged_ = 0;
  FieldAudit* audit_ = nullptr;
};

}  // namespace cairn::api
