#include "terminal/slash_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text/nearest.h"

namespace cairn::terminal {
namespace {

constexpr size_t kNameBytesMax = 24;  // of a word that may be a command

bool is_letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string_view nearest_command(std::string_view name, std::span<const SlashCommand> commands) {
  std::vector<std::string_view> known;
  for (const SlashCommand& command : commands)
    for (const std::string_view each : {command.name, command.alias})
      if (!each.empty()) known.push_back(each);
  const std::vector<std::string_view> found = nearest(name, known, 1);
  return found.empty() ? std::string_view() : found.front();
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
