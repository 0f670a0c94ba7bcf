#include "api/params/field_audit.h"

#include "base/check.h"

namespace cairn::api {
namespace {

thread_local FieldAudit* listener = nullptr;

}  // namespace

FieldAudit::FieldAudit() {
  CAIRN_CHECK(listener == nullptr);
  listener = this;
}

FieldAudit::~FieldAudit() { listener = nullptr; }

void FieldAudit::note(const std::string& path, FieldUse use) {
  if (listener == nullptr) return;
  FieldUse& noted = listener->uses_.try_emplace(path, use).first->second;
  if (use != FieldUse::kHonoured) noted = use;
}

}  // namespace cairn::api
