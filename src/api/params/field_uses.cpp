#include "api/params/field_uses.h"

#include "base/check.h"

namespace cairn::api {
namespace {

thread_local FieldUses* listener = nullptr;

}  // namespace

FieldUses::FieldUses() {
  CAIRN_CHECK(listener == nullptr);
  listener = this;
}

FieldUses::~FieldUses() { listener = nullptr; }

void FieldUses::note(const std::string& path, FieldUse use) {
  if (listener == nullptr) return;
  FieldUse& noted = listener->uses_.try_emplace(path, use).first->second;
  if (use == FieldUse::kRefused) noted = use;
}

}  // namespace cairn::api
