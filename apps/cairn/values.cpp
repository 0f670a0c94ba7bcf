#include "values.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text/text_file.h"
#include "net/listen_address.h"

namespace cairn {
namespace {

/// Names of options, or of places without a name, that may be empty: texts that a model is given.
constexpr std::array<std::string_view, 3> kMayBeEmpty = {"prompt", "pair", "system"};

std::string empty_text(const CLI::Option& option) {
  return option.get_positional() && option.get_lnames().empty() ? "is empty" : "is empty; leave the option out";
}

bool may_be_empty(const CLI::Option& option) {
  const auto& names = option.get_lnames();
  return option.get_expected_max() == 0 ||  // a switch
         std::ranges::any_of(
             names, [](const std::string& name) { return std::ranges::find(kMayBeEmpty, name) != kMayBeEmpty.end(); });
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

void expand_hugging_face_flag(int argc, char** argv) {
  static char long_name[] = "--hf-repo";
  constexpr std::array<std::string_view, 3> kCommands = {"serve", "chat", "run"};
  if (argc < 2 || std::ranges::find(kCommands, argv[1]) == kCommands.end()) return;
  for (int i = 2; i < argc && argv[i] != std::string_view("--"); ++i)
    if (argv[i] == std::string_view("-hf") || argv[i] == std::string_view("-hfr")) argv[i] = long_name;
}

void refuse_empty_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (may_be_empty(*option)) continue;
    option->check(CLI::Validator(
        [why = empty_text(*option)](std::string& text) { return text.empty() ? why : std::string(); }, ""));
  }
  for (CLI::App* inner : command.get_subcommands({})) refuse_empty_values(*inner);
}

CLI::Option* add_list(CLI::App& command, const std::string& names, std::vector<std::string>& list,
                      const std::string& help) {
  const auto take = [&list](const std::vector<std::string>& given) {
    list.clear();
    for (const std::string& text : given) std::ranges::move(split_list(text), std::back_inserter(list));
  };
  const auto check = [](const std::string& text) {
    const auto parts = split_list(text);
    return std::ranges::find(parts, std::string()) == parts.end() ? std::string()
                                                                  : "has an empty part between its commas";
  };
  return command.add_option_function<std::vector<std::string>>(names, take, help)
      ->allow_extra_args(false)
      ->check(CLI::Validator(check, ""));
}

CLI::Validator listen_address() { return readable_by(net::parse_listen_address); }

CLI::Validator existing_file() {
  return CLI::Validator(
      [](std::string& path) {
        const auto there = check_is_file(path, "FILE");
        return there ? std::string() : there.error().message.substr(std::string_view("FILE: ").size());
      },
      "FILE");
}

}  // namespace cairn
