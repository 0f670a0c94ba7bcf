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

/// While it lives, every RequestFields of this thread tells it what it is asked for. One at a time.
class FieldAudit {
 public:
  FieldAudit();
  ~FieldAudit();
  FieldAudit(const FieldAudit&) = delete;
  FieldAudit& operator=(const FieldAudit&) = delete;

  /// By path; of an array's items, the first.
  const std::map<std::string, FieldUse>& all() const { return uses_; }

  /// Whatever else is said of a field counts more than that it was read (kHonoured).
  static void note(const std::string& path, FieldUse use);

 private:
  std::map<std::string, FieldUse> uses_;
};

}  // namespace cairn::api
