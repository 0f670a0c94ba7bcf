/// The version of this build of Cairn, which the file VERSION says.
#pragma once

#include <string_view>

namespace cairn {

extern const std::string_view kVersion;
/// The version as OpenAI's `system_fingerprint`, which begins with a b (for build) as llama.cpp's does.
extern const std::string_view kSystemFingerprint;

}  // namespace cairn
