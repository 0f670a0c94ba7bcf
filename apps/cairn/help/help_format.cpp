#include "help/help_format.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "help/option_text.h"
#include "terminal/raw_mode.h"

namespace cairn {
namespace {

constexpr size_t kNamesWidth = 26;       ///< of the left column
constexpr size_t kIndent = 2, kGap = 2;  ///< in front of the columns, and between them
constexpr size_t kWidthMin = 50;         ///< of a line, however narrow the terminal is
constexpr size_t kWidthMax = 120;        ///< longer lines are hard to read
constexpr std::string_view kFlags = "Flags";

size_t line_width() {
  if (::isatty(STDOUT_FILENO) != 1) return 80;
  return std::clamp<size_t>(static_cast<size_t>(terminal::screen_size(STDOUT_FILENO).columns), kWidthMin, kWidthMax);
}

/// Characters, of which our texts have none that are wide.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

/// The text from `column` on, broken between words. Lines of its own stay.
std::string wrapped(std::string_view text, size_t column, size_t width) {
  std::string out;
  size_t at = column;
  const auto new_line = [&] {
    out += "\n" + std::string(column, ' ');
    at = column;
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    if (at > column && at + 1 + width_of(word) > width) new_line();
    if (at > column && !word.empty()) {
      out += " ";
      ++at;
    }
    out += word;
    at += width_of(word);
    if (end < text.size() && text[end] == '\n') new_line();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// Each line, and what does not fit under its last column.
std::string wrapped_lines(std::string_view text, size_t width) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t gap = line.rfind("  ");
    const size_t column = gap == std::string_view::npos ? 0 : gap + 2;
    out.append(line.substr(0, column)).append(wrapped(line.substr(column), column, width)).append("\n");
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return out;
}

std::string row(const std::string& names, std::string_view text, size_t width, size_t names_width = kNamesWidth) {
  std::string out = std::string(kIndent, ' ') + names;
  const size_t column = kIndent + names_width + kGap;
  const size_t at = width_of(out);
  out += at + kGap > column ? "\n" + std::string(column, ' ') : std::string(column - at, ' ');
  return out + wrapped(text, column, width) + "\n";
}

std::string option_row(const CLI::Option& option, size_t width) {
  std::string text = help_text(option);
  if (option.get_required()) text += " (required)";
  return row(names_text(option), text, width);
}

bool is_positional(const CLI::Option& option) { return option.get_positional(); }
bool has_flag(const CLI::Option& option) { return option.nonpositional(); }

/// Headings in bold and names in colour, where the terminal shows colours that are wanted.
std::string coloured(const std::string& text) {
  if (!terminal::has_colour(STDOUT_FILENO)) return text;
  constexpr std::string_view kBold = "\x1b[1m", kNames = "\x1b[36m", kPlain = "\x1b[0m";
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const bool heading = !line.starts_with(' ') && line.ends_with(':');
    const bool names = line.starts_with("  ") && line.size() > kIndent && line[kIndent] != ' ';
    if (heading) {
      out.append(kBold).append(line).append(kPlain);
    } else if (names) {
      const size_t gap = std::min(line.find("  ", kIndent), line.size());
      out.append(kNames).append(line.substr(0, gap)).append(kPlain).append(line.substr(gap));
    } else {
      out.append(line);
    }
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

std::string usage(const CLI::App& command, const std::string& name) {
  std::string text = "Usage: " + name;
  if (needs_subcommand(command)) return text + " COMMAND\n";
  for (const CLI::Option* option : options_of(command))
    if (option->get_required() && !is_positional(*option)) text += " " + names_text(*option);
  text += " [FLAGS]";
  for (const CLI::Option* option : options_of(command)) {
    if (!is_positional(*option)) continue;
    std::string place = option->get_name(/*positional=*/true);
    if (option->get_expected_max() > 1) place += "...";
    text += option->get_required() ? " " + place : " [" + place + "]";
  }
  return text + "\n";
}

std::string arguments(const CLI::App& command, size_t width) {
  size_t names_width = 0;
  for (const CLI::Option* option : options_of(command))
    if (is_positional(*option)) names_width = std::max(names_width, option->get_name(/*positional=*/true).size());
  std::string text;
  for (const CLI::Option* option : options_of(command))
    if (is_positional(*option))
      text += row(option->get_name(/*positional=*/true), help_text(*option), width, names_width);
  return text.empty() ? text : "\nArguments:\n" + text;
}

std::string commands(const CLI::App& app, size_t width) {
  std::vector<std::string> groups;
  for (const CLI::App* command : subcommands_of(app))
    if (std::ranges::find(groups, command->get_group()) == groups.end()) groups.push_back(command->get_group());
  const auto name_of = [](const CLI::App& command) {
    std::string name = command.get_name();
    for (const std::string& alias : command.get_aliases()) name += ", " + alias;
    return name;
  };
  size_t names_width = 0;
  for (const CLI::App* command : subcommands_of(app)) names_width = std::max(names_width, name_of(*command).size());
  std::string text;
  for (const std::string& group : groups) {
    // CLI11's own name of the group of commands that have none.
    text += group == "Subcommands" ? "\nCommands:\n" : fmt::format("\nCommands {}:\n", group);
    for (const CLI::App* command : subcommands_of(app)) {
      if (command->get_group() != group) continue;
      const std::string about = command->get_description();
      text += row(name_of(*command), about.substr(0, about.find(". ")), width, names_width);
    }
  }
  return text;
}

std::string heading_of(const CLI::Option& option) {
  return option.get_group() == "Options" || is_about_program(option) ? std::string(kFlags) : option.get_group();
}

/// Flags in their groups, in the order in which the groups come.
std::string all_flags(const std::vector<const CLI::Option*>& options, size_t width) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : options)
    if (std::ranges::find(groups, heading_of(*option)) == groups.end()) groups.push_back(heading_of(*option));
  std::string text;
  for (const std::string& group : groups) {
    text += fmt::format("\n{}:\n", group);
    for (const CLI::Option* option : options)
      if (heading_of(*option) == group) text += option_row(*option, width);
  }
  return text;
}

}  // namespace

bool needs_subcommand(const CLI::App& app) {
  return !subcommands_of(app).empty() &&
         std::ranges::none_of(options_of(app), [](const CLI::Option* option) { return is_positional(*option); });
}

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); });
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  const auto is_shown = [](const CLI::Option* option) { return !option->get_group().empty(); };
  std::vector<const CLI::Option*> options = command.get_options(is_shown);
  for (const CLI::App* group : command.get_subcommands([](const CLI::App* each) { return each->get_name().empty(); }))
    std::ranges::copy_if(group->get_options(is_shown), std::back_inserter(options),
                         [](const CLI::Option* option) { return !is_about_program(*option); });
  return options;
}

std::string HelpFormat::make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const {
  const size_t width = line_width();
  std::string about = command->get_description();
  if (about.contains(". ") && !about.ends_with('.')) about += ".";
  std::string text = wrapped(about, 0, width) + "\n\n" + usage(*command, name);
  if (!example_.empty()) text += fmt::format("\nExample{}:\n  {}\n", example_.contains('\n') ? "s" : "", example_);
  text += arguments(*command, width) + commands(*command, width);
  std::vector<const CLI::Option*> flags;
  const bool shows_all = common_.empty() || mode == CLI::AppFormatMode::All;
  if (shows_all) {
    for (const CLI::Option* option : options_of(*command)) {
      const bool is_needless = option == command->get_help_all_ptr() && common_.empty();
      if (has_flag(*option) && !is_needless) flags.push_back(option);
    }
    text += all_flags(flags, width);
  } else {
    text += "\nCommon flags:\n";
    for (const std::string& common : common_) {
      const CLI::Option* option = command->get_option(common);
      if (!is_positional(*option)) text += option_row(*option, width);  // else it is among the arguments
    }
    const auto hidden = std::ranges::count_if(options_of(*command), [](const CLI::Option* option) {
      return has_flag(*option) && !is_about_program(*option);
    });
    text += row("--help-all", fmt::format("Print all {} flags, in groups", hidden), width);
  }
  if (const std::string footer = command->get_footer(); !footer.empty()) text += "\n" + wrapped_lines(footer, width);
  return coloured(text);
}

std::string flags_text(const CLI::App& command, const std::string& about, const std::vector<std::string>& headings,
                       const std::string& after) {
  const size_t width = line_width();
  std::vector<const CLI::Option*> flags;
  for (const std::string& heading : headings)
    for (const CLI::Option* option : options_of(command))
      if (has_flag(*option) && option->get_group() == heading) flags.push_back(option);
  return coloured(wrapped(about, 0, width) + "\n" + all_flags(flags, width) + "\n" + wrapped(after, 0, width) + "\n");
}

void set_help(CLI::App& command, const std::string& example, const std::vector<std::string>& common) {
  command.formatter(std::make_shared<HelpFormat>(example, common));
}

}  // namespace cairn
