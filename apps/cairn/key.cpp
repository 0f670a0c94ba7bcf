// cairn key: makes an API key, and the line that `serve --api-key-file` knows it by.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "api/access/key_file.h"
#include "base/system/random_id.h"
#include "commands.h"

namespace cairn {
namespace {

struct KeyFlags {
  std::string name = "default";
  std::vector<std::string> rules;
  std::string add_to;  ///< a file; empty: none
  bool reads_key = false;
};

/// Adds the line to the file, which only this user may read if it is made here. Errors: those of the file with it.
Result<void> add_line(const std::string& path, const std::string& line) {
  struct stat about{};
  std::string text;
  if (::stat(path.c_str(), &about) == 0 && about.st_size > 0) {
    CAIRN_TRY(text, api::read_key_text(path));
    if (!text.ends_with('\n')) text += '\n';
  }
  const size_t begin = text.size();
  text += line + '\n';
  CAIRN_TRY_VOID(api::parse_keys(text, path));
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return fail(Code::kIo, "cannot write to {}: {}", path, std::strerror(errno));
  const bool missing_end = begin > 0 && static_cast<off_t>(begin) > about.st_size;
  const std::string added = (missing_end ? "\n" : "") + line + '\n';
  const bool written = ::write(file, added.data(), added.size()) == static_cast<ssize_t>(added.size());
  const int error = errno;
  ::close(file);
  if (!written) return fail(Code::kIo, "cannot write to {}: {}", path, std::strerror(error));
  return {};
}

Result<void> run(const KeyFlags& flags) {
  std::string key = random_id("sk-cairn-");
  if (flags.reads_key) std::getline(std::cin, key);
  CAIRN_TRY(const api::Key made, api::key_of(key, {}));
  std::string line = fmt::format("{} sha256:{}", flags.name, net::hex_text(made.digest));
  for (const std::string& rule : flags.rules) line += " " + rule;
  if (line.find_first_of("\n\r") != std::string::npos)
    return fail(Code::kInvalidArgument, "a key is one line: no word of it may have a line's end");
  CAIRN_TRY_VOID(api::parse_keys(line, "the key"));
  if (!flags.add_to.empty()) {
    CAIRN_TRY_VOID(add_line(flags.add_to, line));
    std::fprintf(stderr, "added to %s: %s\n", flags.add_to.c_str(), line.c_str());
  } else {
    std::fprintf(stderr, "line for --api-key-file: ");
    std::fflush(stderr);
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
  if (!flags.reads_key) {
    std::fprintf(stderr, "the key, which is kept nowhere: ");
    std::fflush(stderr);
    std::printf("%s\n", key.c_str());
  }
  return {};
}

}  // namespace

void add_key(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("key", "Make an API key for `serve --api-key-file`");
  auto flags = std::make_shared<KeyFlags>();
  command->add_option("NAME", flags->name, "Who the key is for: what logs and limits call it")->capture_default_str();
  command->add_option("RULES", flags->rules,
                      "What the key may do: models=PATTERN,... priority=batch rpm=N tpm=N concurrent=N no_disk manage "
                      "(default: ask all models)");
  command->add_option("--add-to", flags->add_to, "Key file that gets the line; made if it is not there")
      ->check(CLI::Validator([](std::string& text) { return text.empty() ? "is empty" : std::string(); }, ""));
  command->add_flag("--read", flags->reads_key, "Read the key from standard input instead of making one");
  command->callback([flags, &exit_code] {
    if (const auto done = run(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
