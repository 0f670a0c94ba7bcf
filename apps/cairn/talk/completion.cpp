#include "talk/completion.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/text/utf8.h"
#include "talk/saved_talk.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

/// Files of a folder that are looked at.
constexpr size_t kFilesMax = 10'000;

std::vector<std::string> that_begin(std::vector<std::string> names, std::string_view beginning) {
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(beginning); });
  std::ranges::sort(names);
  return names;
}

/// Paths that begin so; folders end with a slash.
std::vector<std::string> paths_that_begin(const std::string& beginning) {
  const size_t slash = beginning.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : beginning.substr(0, slash + 1);
  const std::string_view name = std::string_view(beginning).substr(folder.size());
  std::vector<std::string> paths;
  std::error_code error;
  fs::directory_iterator entry(folder.empty() ? "." : expand_home(folder), error);
  for (size_t i = 0; !error && entry != fs::directory_iterator() && i < kFilesMax; entry.increment(error), ++i) {
    const std::string found = entry->path().filename().string();
    if (!found.starts_with(name) || (found.starts_with('.') && !name.starts_with('.')) || !utf8_valid(found)) continue;
    std::error_code unknown;
    paths.push_back(folder + found + (entry->is_directory(unknown) ? "/" : ""));
  }
  std::ranges::sort(paths);
  return paths;
}

bool looks_like_path(std::string_view word) {
  return word.starts_with('/') || word.starts_with("./") || word.starts_with("../") || word.starts_with("~/");
}

}  // namespace

terminal::Completer talk_completer(std::span<const terminal::SlashCommand> commands,
                                   std::function<std::vector<std::string>()> models,
                                   std::vector<std::string> settings) {
  return [commands, models = std::move(models),
          settings = std::move(settings)](std::string_view before) -> terminal::Completion {
    const size_t blank = before.find_first_of(" \n");
    if (before.starts_with('/') && blank == std::string_view::npos) {
      std::vector<std::string> names;
      for (const terminal::SlashCommand& command : commands) names.emplace_back(command.name);
      terminal::Completion found{0, that_begin(std::move(names), before)};
      if (!found.candidates.empty() || before.find('/', 1) == std::string_view::npos) return found;
    }
    const std::string_view command = before.substr(0, blank);
    if (blank != std::string_view::npos && !before.contains('\n')) {
      const std::string argument(before.substr(blank + 1));
      if (command == "/model") return {blank + 1, that_begin(models(), argument)};
      if (command == "/set") return {blank + 1, that_begin(settings, argument)};
      if (command == "/save" || command == "/load") return {blank + 1, paths_that_begin(argument)};
    }
    const size_t word = before.find_last_of(" \t\n") + 1;
    if (!looks_like_path(before.substr(word))) return {};
    return {word, paths_that_begin(std::string(before.substr(word)))};
  };
}

}  // namespace cairn
