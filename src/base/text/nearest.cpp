#include "base/text/nearest.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "base/text/edit_distance.h"
#include "base/text/printable.h"

namespace cairn {
namespace {

constexpr size_t kDifferenceMax = 4;  // letters
/// From so many letters on, a word counts as the beginning of a name, or as a part of one.
constexpr size_t kBeginningMin = 2, kPartMin = 3;
/// A part of a name is as likely as a name that differs by so many letters.
constexpr size_t kPartDifference = 2;

std::string compared(std::string_view text) {
  std::string lower(text.substr(0, kNearestBytesMax));
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

/// How unlike the texts are; nothing: too unlike.
std::optional<size_t> difference(const std::string& word, const std::string& name) {
  if (word.size() >= kBeginningMin && name.starts_with(word)) return 0;
  const size_t longer = std::max(word.size(), name.size());
  const size_t limit = std::min(kDifferenceMax, (longer + 1) / 3);
  const size_t length_differs = longer - std::min(word.size(), name.size());
  const size_t differs = length_differs > limit ? length_differs : edit_distance(word, name);
  const bool is_part = word.size() >= kPartMin && name.contains(word);
  if (is_part && (differs > limit || differs > kPartDifference)) return kPartDifference;
  if (differs > limit) return std::nullopt;
  return differs;
}

}  // namespace

std::vector<std::string_view> nearest(std::string_view word, std::span<const std::string_view> known, size_t most) {
  std::vector<std::pair<size_t, std::string_view>> found;
  const std::string wanted = compared(word);
  if (wanted.empty()) return {};
  for (const std::string_view name : known) {
    const auto differs = difference(wanted, compared(name));
    const auto is_name = [&](const auto& each) { return each.second == name; };
    if (differs && std::ranges::none_of(found, is_name)) found.emplace_back(*differs, name);
  }
  std::ranges::stable_sort(found, {}, [](const auto& each) { return each.first; });
  found.resize(std::min(found.size(), most));
  std::vector<std::string_view> names;
  names.reserve(found.size());
  for (const auto& [differs, name] : found) names.push_back(name);
  return names;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known, size_t most,
                         std::string_view in_front) {
  const std::vector<std::string_view> names = nearest(word, known, most);
  if (names.empty()) return {};
  std::string hint = "; did you mean ";
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) hint += i + 1 == names.size() ? " or " : ", ";
    hint.append(in_front).append(printable(names[i], kNearestBytesMax));
  }
  return hint + "?";
}

}  // namespace cairn
