/// Commands of a conversation: lines that begin with a slash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cairn::terminal {

struct SlashCommand {
  std::string_view name;       ///< with its slash
  std::string_view arguments;  ///< as the help shows them; empty: it takes none
  std::string_view help;
  std::string_view alias{};  ///< another name; empty: none
  /// The beginning of a text of several lines that is this command; empty: the command is one line.
  std::string_view lines_after{};
};

enum class LineKind : uint8_t { kMessage, kCommand, kUnknown };

struct ParsedLine {
  LineKind kind = LineKind::kMessage;
  size_t command = 0;        ///< of kCommand: its number in the list
  std::string argument{};    ///< of kCommand: what follows its name, without blanks around it
  std::string_view nearest;  ///< of kUnknown: the command whose name is most alike; empty: none is alike
};

/// What a line is. A word of letters behind a slash is a command, known or not; "/etc/hosts", "// note" and whatever
/// begins with a blank are messages. So is a text of several lines, as one that is pasted, unless its command takes
/// several (SlashCommand::lines_after).
ParsedLine parse_line(std::string_view line, std::span<const SlashCommand> commands);

/// The list of all commands, a line each.
std::string commands_help(std::span<const SlashCommand> commands);

}  // namespace cairn::terminal
