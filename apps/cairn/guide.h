/// Files that come with Cairn: the demonstration model, and a text to calibrate quantisation with.
#pragma once

#include <string>

#include "base/error.h"

namespace cairn {

/// Their paths: beside an installed program (../share/cairn), or in the checkout in which the program was built. Error:
/// kNotFound, with the paths that were tried.
Result<std::string> guide_model();
Result<std::string> calibration_text();

}  // namespace cairn
