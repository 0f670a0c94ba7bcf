/// The model that comes with Cairn, for those who have none yet.
#pragma once

#include <string>

#include "base/error.h"

namespace cairn {

/// Its file: beside an installed program (../share/cairn), or in the checkout that the program was built in.
/// Error: kNotFound, with the places that were looked at.
Result<std::string> guide_model();

}  // namespace cairn
