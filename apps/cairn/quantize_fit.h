/// `cairn quantize --fit`: types by measured harm.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "convert/quantize.h"

namespace cairn {

/// What is wrong with the size that --fit was given, or nothing.
std::string check_fit(const std::string& text);

/// Chooses `options.chosen` for a file of the size, prints what was chosen and why, and measures `importance` first if
/// there is none. Errors: those of the text and of running the model; kInvalidArgument: the size is too small, the
/// model is an encoder.
Result<void> fit_types(const std::string& in, const std::string& size, const std::vector<std::string>& texts,
                       std::optional<convert::ImportanceMatrix>& importance, convert::QuantizeOptions& options);

}  // namespace cairn
