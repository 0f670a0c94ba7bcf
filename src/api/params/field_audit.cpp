#include "api/params/field_audit.h"

#include "base/check.h"

namespace cairn::api {
namespace {

thread_local FieldAudit* current_audit = nullptr;

}  // namespace

FieldAudit::FieldAudit() {
  CAIRN_CHECK(current_audit == nullptr);
  current_audit = this;
}

FieldAudit::~FieldAudit() { current_audit = nullptr; }

void FieldAudit::note(const std::string& path, FieldUse use) {
  if (current_audit == nullptr) return;
  FieldUse& noted = current_audit->uses_.try_emplace(path, use).first->second;
  if (use != FieldUse::kHonoured) noted = use;
}

}  // namespace cairn::api
