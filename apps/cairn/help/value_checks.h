/// What options take: the help, the checks and the errors say it in the same words.
///
/// A check's message continues the name of its option: "takes 1 to 9, not 10". An empty text is refused by each. The
/// description of a check is what help shows behind the name: "N (1 to 9)".
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// Begins a description that is for the help, and not CLI11's own.
inline constexpr std::string_view kShownMark = "=";

CLI::Validator whole_number(int64_t low, uint64_t high);
/// The same, or one of `words`, such as "auto".
CLI::Validator whole_number_or(const std::vector<std::string>& words, int64_t low, uint64_t high);
CLI::Validator real_number(double low, double high);
/// One of these words.
CLI::Validator one_of(const std::vector<std::string>& words);
/// A number of bytes, "512MiB" or "24g", which it replaces by the number; to be used with transform(). `low`: 0, or 1
/// where nothing is no size.
CLI::Validator byte_size(int64_t low);

/// "1 to 9", or "1 or more" where there is no bound but the number's type.
std::string range_words(int64_t low, uint64_t high);
/// "none, whole or all".
std::string listed(const std::vector<std::string>& words);

}  // namespace cairn
