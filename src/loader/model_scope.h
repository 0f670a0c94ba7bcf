/// Which models exist for the request that a thread reads: an API key may be for some of them alone.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// Whether a model of that name, with these other names, is shown. Null: every model is.
using ModelFilter = std::function<bool(std::string_view name, const std::vector<std::string>& aliases)>;

/// While it lives, models that the filter does not show are on no list of this thread, and no request that it reads
/// finds them. The one made last on a thread holds there.
class ModelScope {
 public:
  /// `filter` outlives it.
  explicit ModelScope(const ModelFilter& filter);
  ~ModelScope();
  ModelScope(const ModelScope&) = delete;
  ModelScope& operator=(const ModelScope&) = delete;

  /// True on a thread without a scope.
  static bool shows(std::string_view name, const std::vector<std::string>& aliases);

 private:
  const ModelFilter* const outer_;
};

}  // namespace cairn
