#include "help/option_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text/printable.h"
#include "help/value_checks.h"

namespace cairn {
namespace {

constexpr std::string_view kDefaultNote = "(default: ";
/// How checks' messages begin that continue the name of the option.
constexpr std::array<std::string_view, 4> kContinuing = {"takes ", "is ", "has ", "must "};

/// What the checks say of the value: "N (1 to 9)"; empty: none says anything.
std::string shown_by_checks(const CLI::Option& option) {
  const std::string all = option.get_type_name();
  const size_t mark = all.find(std::string(":").append(kShownMark));
  return mark == std::string::npos ? std::string() : all.substr(mark + 1 + kShownMark.size());
}

/// "1 to 9", or empty.
std::string range_of_checks(const CLI::Option& option) {
  const std::string shown = shown_by_checks(option);
  const size_t begin = shown.find(" (");
  return begin == std::string::npos || !shown.ends_with(')') ? std::string()
                                                             : shown.substr(begin + 2, shown.size() - begin - 3);
}

bool has_default_note(const std::string& text) { return text.ends_with(')') && text.contains(kDefaultNote); }

/// The text behind "NAME: " in the errors of CLI11.
std::string_view without_name(std::string_view what, std::string_view name) {
  if (what.starts_with(name) && what.substr(name.size()).starts_with(": ")) what.remove_prefix(name.size() + 2);
  return what;
}

}  // namespace

bool is_switch(const CLI::Option& option) { return option.get_expected_max() == 0; }

bool is_about_program(const CLI::Option& option) {
  constexpr std::array<std::string_view, 3> kNames = {"help", "help-all", "version"};
  const auto& names = option.get_lnames();
  return !names.empty() && std::ranges::find(kNames, names.front()) != kNames.end();
}

std::string value_name(const CLI::Option& option) {
  if (is_switch(option)) return {};
  if (const std::string shown = shown_by_checks(option); !shown.empty()) return shown.substr(0, shown.find(" ("));
  std::string name = option.get_type_name();
  constexpr std::string_view kText = "TEXT:";  // and what a check says of it: "TEXT:FILE"
  if (name.starts_with(kText)) name.erase(0, kText.size());
  constexpr std::array<std::string_view, 3> kNumbers = {"INT", "UINT", "FLOAT"};
  return std::ranges::find(kNumbers, name) != kNumbers.end() ? "N" : name;
}

std::string names_text(const CLI::Option& option) {
  std::string text;
  const auto add = [&](std::string_view dashes, const std::string& name) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", dashes, name);
  };
  for (const std::string& name : option.get_snames()) add("-", name);
  for (const std::string& name : option.get_lnames()) add("--", name);
  const std::string value = value_name(option);
  if (text.empty()) return option.get_name(/*positional=*/true);
  return value.empty() ? text : text + " " + value;
}

std::string help_text(const CLI::Option& option) {
  std::string text = option.get_description();
  std::string range = range_of_checks(option);
  const std::string shown_default = is_switch(option) ? "" : option.get_default_str();
  if (has_default_note(text)) {
    if (!range.empty()) text.insert(text.rfind(kDefaultNote) + 1, range + "; ");
    return text;
  }
  if (!shown_default.empty()) range += fmt::format("{}default: {}", range.empty() ? "" : "; ", shown_default);
  return range.empty() ? text : fmt::format("{} ({})", text, range);
}

std::string about_text(const CLI::Option& option) {
  const std::string text = option.get_description();
  return has_default_note(text) ? text.substr(0, text.rfind(kDefaultNote) - 1) : text;
}

std::string default_text(const CLI::Option& option) {
  if (const std::string shown = option.get_default_str(); !shown.empty()) return shown;
  const std::string& text = option.get_description();
  if (!has_default_note(text)) return {};
  const size_t begin = text.rfind(kDefaultNote) + kDefaultNote.size();
  return text.substr(begin, text.size() - begin - 1);
}

std::string refusal(const CLI::Option& option, std::string_view called, const CLI::Error& error) {
  const std::string kind = error.get_name();
  const std::string value = option.results().empty() ? std::string() : printable(option.results().back());
  const std::string taken = value_name(option);
  if (kind == "ConversionError")
    return is_switch(option) ? fmt::format("{} is a switch, which takes no value such as {}", called, value)
                             : fmt::format("{} takes {}, not {}", called, taken == "N" ? "a number" : taken, value);
  if (kind == "ArgumentMismatch") {
    if (is_switch(option)) return fmt::format("{} is a switch, which takes no value", called);
    if (option.count() > 1) return fmt::format("{} is given {} times; give it once", called, option.count());
    return fmt::format("{} needs a value: {} {}", called, called, taken);
  }
  const std::string whole = error.what();
  std::string_view why = without_name(whole, option.get_name());
  why = without_name(why, called);
  const bool continues =
      std::ranges::any_of(kContinuing, [&](std::string_view beginning) { return why.starts_with(beginning); });
  return fmt::format("{}{}{}", called, continues ? " " : ": ", printable(why, why.size()));
}

}  // namespace cairn
