/// The models that clients may name.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "loader/loaded_model.h"
#include "loader/model_scope.h"

namespace cairn::loader {

class Unloader;

/// Names of no model of which the log is told.
inline constexpr size_t kForeignNamesMax = 256;

/// Models that clients may name. Thread-safe: models may come and go while others look.
class Registry {
 public:
  Registry();
  /// Waits for the models that nobody holds any more to be destroyed.
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  /// Until there is a model.
  bool loading() const;
  /// Error: kInvalidArgument, a model of that name or with that alias is here already.
  Result<SharedModel> add(std::unique_ptr<LoadedModel> model);
  /// The model that answers a request for `name`, which may be an alias. An empty name gives the first model. While
  /// there is one model, it answers every name: clients have names that they cannot leave out. The log has a line of
  /// each such name, of kForeignNamesMax at most. Errors: kUnavailable while loading; kNotFound, listing the names
  /// there are; those of ModelFiles::check.
  Result<SharedModel> find(std::string_view name, const ModelScope& scope) const;
  /// The same, but only by its own name or an alias: for clients that ask whether there is such a model.
  Result<SharedModel> find_exactly(std::string_view name, const ModelScope& scope) const;
  /// The models that the scope shows; no other is found either.
  std::vector<SharedModel> list(const ModelScope& scope) const;
  /// The model leaves the table: no request finds it any more. Those that it answers go on to their end, and then it is
  /// destroyed. False: it is not here.
  bool remove(const SharedModel& model);
  /// The same, unless somebody holds it. False: somebody does, or it is not here.
  bool remove_idle(const std::weak_ptr<const LoadedModel>& model);
  /// Models that have left the table and are not destroyed yet.
  size_t leaving() const;
  /// Removes every model and stops every engine, of models that were removed before too: what they answer is cut off.
  void clear();

 private:
  void note_foreign_name(std::string_view name, const LoadedModel& answering) const;

  mutable std::mutex mutex_;
  const std::shared_ptr<Unloader> unloader_;
  std::vector<SharedModel> models_;
  std::vector<std::weak_ptr<const LoadedModel>> removed_;     // some of which still answer
  mutable std::set<std::string, std::less<>> foreign_names_;  // that the log has a line of
};

}  // namespace cairn::loader
