/// The text that quantisation is calibrated on, for `cairn imatrix` and `cairn quantize --fit`.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "calibrate/reading.h"
#include "tokenizer/tokenizer.h"

namespace cairn {

struct CalibrationText {
  std::vector<std::string> names;  ///< of its files, without folders
  std::vector<TokenId> tokens;
  calibrate::ReadingOptions reading;  ///< of all its windows
};

/// Reads the text of these files, "-" for standard input, or of the text that comes with Cairn if there are none.
/// Errors: those of reading them; kInvalidArgument, if there is not one window of `window_tokens`.
Result<CalibrationText> read_calibration(std::vector<std::string> files, const tokenizer::Tokenizer& tokenizer,
                                         int32_t window_tokens);

}  // namespace cairn
