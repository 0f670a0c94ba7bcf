/// The demonstration model that comes with Cairn.
#pragma once

#include <string>

#include "base/error.h"

namespace cairn {

/// Path of its file: beside an installed program (../share/cairn), or in the checkout in which the program was built.
/// Error: kNotFound, with the paths that were tried.
Result<std::string> guide_model();

}  // namespace cairn
