#include "calibration.h"

#include <filesystem>

#include "base/text/text_file.h"
#include "guide.h"

namespace cairn {
namespace {

constexpr size_t kTextBytesMax = 1 << 30;  // of one file

}  // namespace

Result<CalibrationText> read_calibration(std::vector<std::string> files, const tokenizer::Tokenizer& tokenizer,
                                         int32_t window_tokens) {
  if (files.empty()) {
    CAIRN_TRY(files.emplace_back(), calibration_text());
  }
  CalibrationText text;
  std::string all;
  for (const std::string& file : files) {
    CAIRN_TRY(const std::string part, file == "-" ? read_standard_input("the text", kTextBytesMax)
                                                  : read_text_file(file, "the text", kTextBytesMax));
    all += part;
    text.names.push_back(file == "-" ? "standard input" : std::filesystem::path(file).filename().string());
  }
  CAIRN_TRY(text.tokens, tokenizer.encode(all, {.add_special = true}));
  // Without its end token, since windows treat the text as continuing.
  if (tokenizer.special().add_eos && !text.tokens.empty()) text.tokens.pop_back();
  text.reading.windows.tokens = window_tokens;
  if (tokenizer.special().add_bos) text.reading.windows.first = tokenizer.special().bos;
  text.reading.count = text.reading.windows.of(std::ssize(text.tokens));
  if (text.reading.count == 0) {
    return fail(Code::kInvalidArgument, "the text has {} tokens, but one window takes {}: give more text",
                text.tokens.size(), window_tokens);
  }
  return text;
}

}  // namespace cairn
