/// Which fields an endpoint knows, as its own parser says it: what docs/fields.md is made from.
#pragma once

#include <map>
#include <string>

namespace cairn::api {

enum class FieldUse {
  kHonoured,
  kAccepted,  ///< allowed, and says nothing here
  kRefused,   ///< known, and an error that says what to do instead
};

/// While it lives, every Fields of this thread tells it what it is asked for. One at a time.
class FieldAudit {
 public:
  FieldAudit();
  ~FieldAudit();
  FieldAudit(const FieldAudit&) = delete;
  FieldAudit& operator=(const FieldAudit&) = delete;

  /// By path; of an array's items, the first.
  const std::map<std::string, FieldUse>& all() const { return uses_; }

  static void note(const std::string& path, FieldUse use);

 private:
  std::map<std::string, FieldUse> uses_;
};

}  // namespace cairn::api
