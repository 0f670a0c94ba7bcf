#include "loader/model_scope.h"

#include <utility>

namespace cairn {
namespace {

thread_local const ModelFilter* scope_filter = nullptr;

}  // namespace

ModelScope::ModelScope(const ModelFilter& filter) : outer_(std::exchange(scope_filter, &filter)) {}

ModelScope::~ModelScope() { scope_filter = outer_; }

bool ModelScope::shows(std::string_view name, const std::vector<std::string>& aliases) {
  return scope_filter == nullptr || !*scope_filter || (*scope_filter)(name, aliases);
}

}  // namespace cairn
