/// Which models exist for who asks: an API key may be for some of them alone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::loader {

/// Whether a model of that name, with these other names, is shown.
using ModelFilter = std::function<bool(std::string_view name, const std::vector<std::string>& aliases)>;

/// Models that it does not show are on no list, and no request finds them. A copy costs next to nothing.
class ModelScope {
 public:
  /// Every model.
  ModelScope() = default;
  explicit ModelScope(ModelFilter filter) : filter_(std::make_shared<const ModelFilter>(std::move(filter))) {}
  bool shows(std::string_view name, const std::vector<std::string>& aliases) const {
    return filter_ == nullptr || (*filter_)(name, aliases);
  }

 private:
  std::shared_ptr<const ModelFilter> filter_;  // null: everything is shown
};

/// For the server itself.
inline const ModelScope kEveryModel{};

}  // namespace cairn::loader
