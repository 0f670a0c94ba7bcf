/// Which fields an endpoint knows, as its own parser says it: what docs/fields.md is made from.
#pragma once

#include <map>
#include <string>

namespace cairn::api {

enum class FieldUse {
  kHonoured,
  kNeutral,  ///< a value that asks for nothing is taken, another is refused with what to do instead
  kIgnored,  ///< taken whatever it says; without effect here, which is told
  kRefused,  ///< known, and an error that says what to do instead
};

/// What every RequestFields of a context asks for.
class FieldAudit {
 public:
  /// The uses by path; of an array's items, the first.
  const std::map<std::string, FieldUse>& all() const { return uses_; }

  /// Whatever else is said of a field counts more than that it was read (kHonoured).
  void note(const std::string& path, FieldUse use) {
    FieldUse& noted = uses_.try_emplace(path, use).first->second;
    if (use != FieldUse::kHonoured) noted = use;
  }

 private:
  std::map<std::string, FieldUse> uses_;
};

}  // namespace cairn::api
