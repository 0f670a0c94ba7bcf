/// A model that a program has open: its engine, and the service that reads requests to it as the server does.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "api/service.h"
#include "base/error.h"
#include "loader/registry.h"
#include "settings.h"

namespace cairn::library {

/// Thread-safe. Whoever holds it may use it; the last one to let go stops the engine.
class Model {
 public:
  /// Errors: those of Settings::read and of loading.
  static Result<std::shared_ptr<Model>> open(const std::string& model, const std::string& options);
  explicit Model(const Settings& settings);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Error: kUnavailable, this is a child of the process that opened it.
  Result<void> check_process() const;
  bool is_of_this_process() const;
  api::Service& service() { return service_; }
  const loader::SharedModel& loaded() const { return loaded_; }
  /// A context for reading a request, which this model answers.
  api::RequestContext context() const;
  std::string info() const;

 private:
  const pid_t process_;
  loader::Registry registry_;
  api::Service service_;
  loader::SharedModel loaded_;
};

}  // namespace cairn::library
