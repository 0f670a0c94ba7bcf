/// The version of this build of Cairn.
#pragma once

#include <string_view>

namespace cairn {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace cairn
