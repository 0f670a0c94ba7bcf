/// What `--help` prints.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// Groups of flags that several commands have.
inline constexpr std::string_view kSpeedHeading = "Speed and memory";
inline constexpr std::string_view kCacheHeading = "KV cache";
inline constexpr std::string_view kDraftHeading = "Speculative decoding";
inline constexpr std::string_view kTemplateHeading = "Chat template and reasoning";
inline constexpr std::string_view kFormHeading = "Structured output";
inline constexpr std::string_view kSpecialHeading = "Special models and adapters";
inline constexpr std::string_view kRopeHeading = "Longer contexts (RoPE and YaRN)";
inline constexpr std::string_view kOperatingHeading = "Log and operation";

/// Help of a command: what it does, how it is called, an example, and its flags. `--help` shows the common ones, and
/// `--help-all` all of them in their groups.
class HelpFormat final : public CLI::FormatterBase {
 public:
  /// `common`: names of flags that --help shows, in this order; none: it shows all.
  explicit HelpFormat(std::string example = {}, std::vector<std::string> common = {})
      : example_(std::move(example)), common_(std::move(common)) {}

  std::string make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const override;

 private:
  std::string example_;
  std::vector<std::string> common_;
};

/// Gives the command its example and the flags that --help shows. An error of `common` is thrown when help is printed.
void set_help(CLI::App& command, const std::string& example, const std::vector<std::string>& common = {});

/// The flags of these groups of the command, behind a text and in front of another one. Colours as in --help.
std::string flags_text(const CLI::App& command, const std::string& about, const std::vector<std::string>& headings,
                       const std::string& after);

/// The subcommands that have names.
std::vector<const CLI::App*> subcommands_of(const CLI::App& app);
/// Whether the word behind the command has to be one of its subcommands: it has some, and no arguments of its own.
bool needs_subcommand(const CLI::App& app);
/// The options of the command, and those of its groups that are commands without a name, which CLI11 makes of options
/// of which one has to be given.
std::vector<const CLI::Option*> options_of(const CLI::App& command);

}  // namespace cairn
