/// The version with the commit that the program was built from.
#pragma once

#include <string_view>

namespace cairn {

/// "0.1.0 (commit 0123456789ab)", with a plus sign behind the commit if files of the checkout differed from it; the
/// version alone where there was no checkout. Only the program knows it: a new commit links nothing else again.
extern const std::string_view kBuildVersion;

}  // namespace cairn
