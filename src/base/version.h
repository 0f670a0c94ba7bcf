/// The version of this build of Cairn.
#pragma once

#include <string_view>

namespace cairn {

inline constexpr std::string_view kVersion = "0.1.0";
/// The version as OpenAI's `system_fingerprint`, which begins with a b (for build) as llama.cpp's does.
inline constexpr std::string_view kSystemFingerprint = "b0.1.0";
static_assert(kSystemFingerprint.substr(1) == kVersion);

}  // namespace cairn
