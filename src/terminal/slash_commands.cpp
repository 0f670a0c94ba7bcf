#include "terminal/slash_commands.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/edit_distance.h"

namespace cairn::terminal {
namespace {

constexpr size_t kNameBytesMax = 24;  // of a word that may be a command
/// Letters by which a name may differ from the one that is meant.
constexpr size_t kDifferenceMax = 3;

bool is_letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string_view nearest_command(std::string_view name, std::span<const SlashCommand> commands) {
  std::string_view nearest;
  size_t least = kDifferenceMax + 1;
  for (const SlashCommand& command : commands) {
    for (const std::string_view known : {command.name, command.alias}) {
      if (known.empty()) continue;
      // The beginning of a name is one that was typed too early.
      const size_t differs = name.size() > 1 && known.starts_with(name) ? 0 : edit_distance(name, known);
      if (differs < least && differs + 2 < known.size()) {
        least = differs;
        nearest = known;
      }
    }
  }
  return nearest;
}

}  // namespace

ParsedLine parse_line(std::string_view line, std::span<const SlashCommand> commands) {
  if (!line.starts_with('/')) return {};
  line = trimmed(line);
  if (line.contains('\n') && std::ranges::none_of(commands, [&](const SlashCommand& command) {
        return !command.lines_after.empty() && line.starts_with(command.lines_after);
      }))
    return {};
  const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string_view name = line.substr(0, end);
  const auto found = std::ranges::find_if(
      commands, [&](const SlashCommand& command) { return command.name == name || command.alias == name; });
  if (found != commands.end())
    return {
        LineKind::kCommand, static_cast<size_t>(found - commands.begin()), std::string(trimmed(line.substr(end))), {}};
  const bool is_word = name.size() <= kNameBytesMax && std::ranges::all_of(name.substr(1), is_letter);
  if (!is_word || (name.size() == 1 && end < line.size())) return {};
  return {LineKind::kUnknown, 0, {}, nearest_command(name, commands)};
}

std::string commands_help(std::span<const SlashCommand> commands) {
  size_t width = 0;
  const auto usage = [](const SlashCommand& command) {
    return command.arguments.empty() ? std::string(command.name)
                                     : fmt::format("{} {}", command.name, command.arguments);
  };
  for (const SlashCommand& command : commands) width = std::max(width, usage(command).size());
  std::string help;
  for (const SlashCommand& command : commands) help += fmt::format("{:<{}}  {}\n", usage(command), width, command.help);
  return help;
}

}  // namespace cairn::terminal
