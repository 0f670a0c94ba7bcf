#include "help/value_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/printable.h"

namespace cairn {
namespace {

/// Upper bounds from here on are there for safety, and nobody comes near them.
constexpr uint64_t kUnboundedMin = 1 << 20;
constexpr std::string_view kEmpty = "is empty; leave the option out";

CLI::Validator check(std::string shown, std::function<std::string(std::string&)> what_is_wrong) {
  const auto refuse_empty = [why = std::move(what_is_wrong)](std::string& text) {
    return text.empty() ? std::string(kEmpty) : why(text);
  };
  return {refuse_empty, std::string(kShownMark) + std::move(shown)};
}

/// Whether the number is whole and in the range, as CLI11 will read it.
bool is_in(const std::string& text, int64_t low, uint64_t high) {
  int64_t with_sign = 0;
  if (text.starts_with('-')) return low < 0 && CLI::detail::lexical_cast(text, with_sign) && with_sign >= low;
  uint64_t number = 0;
  return CLI::detail::lexical_cast(text, number) && number <= high &&
         (low <= 0 || number >= static_cast<uint64_t>(low));
}

/// Digits, perhaps with a sign.
bool is_whole(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The range for an error about `text`: of a number that is too large with its upper bound.
std::string range_for(std::string_view text, int64_t low, uint64_t high) {
  return is_whole(text) && !text.starts_with('-') ? fmt::format("{} to {}", low, high) : range_words(low, high);
}

}  // namespace

std::string range_words(int64_t low, uint64_t high) {
  if (high >= kUnboundedMin) return fmt::format("{} or more", low);
  return fmt::format("{} to {}", low, high);
}

std::string listed(const std::vector<std::string>& words) {
  std::string list;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) list += i + 1 == words.size() ? " or " : ", ";
    list += words[i];
  }
  return list;
}

CLI::Validator whole_number(int64_t low, uint64_t high) {
  return check(fmt::format("N ({})", range_words(low, high)), [low, high](std::string& text) {
    if (is_in(text, low, high)) return std::string();
    return fmt::format("takes {}{}, not {}", is_whole(text) ? "" : "a whole number, ", range_for(text, low, high),
                       printable(text));
  });
}

CLI::Validator whole_number_or(const std::vector<std::string>& words, int64_t low, uint64_t high) {
  return check(
      fmt::format("N|{} ({})", fmt::join(words, "|"), range_words(low, high)), [words, low, high](std::string& text) {
        if (std::ranges::count(words, text) > 0 || is_in(text, low, high)) return std::string();
        return fmt::format("takes {}, or {}, not {}", listed(words), range_for(text, low, high), printable(text));
      });
}

CLI::Validator real_number(double low, double high) {
  const std::string range = fmt::format("{} to {}", low, high);
  return check(fmt::format("N ({})", range), [=](std::string& text) {
    double number = 0;
    if (CLI::detail::lexical_cast(text, number) && number >= low && number <= high) return std::string();
    return fmt::format("takes {}, not {}", range, printable(text));
  });
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  return check(fmt::format("{}", fmt::join(words, "|")), [words](std::string& text) {
    if (std::ranges::count(words, text) > 0) return std::string();
    return fmt::format("takes {}, not {}", listed(words), printable(text));
  });
}

CLI::Validator byte_size(int64_t low) {
  return check("SIZE", [low](std::string& text) {
    const std::string given = text;
    bool read = false;
    try {
      read = CLI::AsSizeValue(false)(text).empty();
    } catch (const CLI::ValidationError&) {
      read = false;  // a unit that there is not, or too many bytes
    }
    if (read && text == "0" && low > 0) return std::string("takes a size above 0; leave it out for the default");
    int64_t bytes = 0;
    if (read && CLI::detail::lexical_cast(text, bytes)) return std::string();
    return fmt::format("takes a size such as 512MiB or 24GiB, not {}", printable(given));
  });
}

}  // namespace cairn
