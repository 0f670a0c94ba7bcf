#include "base/version.h"

namespace cairn {

// CAIRN_VERSION is given to this file alone, so that another version compiles nothing else.
constexpr std::string_view kVersion = CAIRN_VERSION;
constexpr std::string_view kSystemFingerprint = "b" CAIRN_VERSION;

}  // namespace cairn
