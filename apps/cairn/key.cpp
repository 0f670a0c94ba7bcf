// cairn key: makes an API key, and the line that `serve --api-key-file` knows it by.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/access/key_file.h"
#include "base/system/random_id.h"
#include "base/text/printable.h"
#include "base/text/text_file.h"
#include "commands.h"
#include "help/help_format.h"
#include "output.h"

namespace cairn {
namespace {

struct KeyFlags {
  std::string name = "default";
  std::vector<std::string> rules;
  std::string add_to;  ///< a file; empty: none
  bool reads_key = false;
};

/// A key file that gets another line.
class GrowingKeyFile {
 public:
  /// Opens the file, which only this user may read if it is made here. Errors: those of the file with the line in it.
  static Result<std::unique_ptr<GrowingKeyFile>> open(const std::string& path, const std::string& line) {
    struct stat about{};
    const bool is_new = ::stat(path.c_str(), &about) != 0;
    std::string text;
    if (!is_new) {
      CAIRN_TRY(text, api::read_key_text(path));
      constexpr off_t kMarkBytes = 3;
      if (const off_t before = about.st_size - static_cast<off_t>(text.size()); before != 0 && before != kMarkBytes)
        return fail(Code::kInvalidArgument,
                    "the key file {} is UTF-16, to which no line can be added; save it as UTF-8", path);
    }
    const std::string added = (text.empty() || text.ends_with('\n') ? "" : "\n") + line + '\n';
    CAIRN_TRY_VOID(api::parse_keys(text + added, path));
    auto file = std::make_unique<GrowingKeyFile>();
    file->path_ = path;
    file->added_ = added;
    file->is_new_ = is_new;
    file->size_ = about.st_size;
    file->descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file->descriptor_ < 0) return file->failure(errno);
    return file;
  }
  ~GrowingKeyFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    if (is_new_ && !written_) ::unlink(path_.c_str());
  }

  /// Writes the whole line, or else leaves the file as it was.
  Result<void> write() {
    const ssize_t count = ::write(descriptor_, added_.data(), added_.size());
    const int error = count < 0 ? errno : ENOSPC;
    written_ = count == static_cast<ssize_t>(added_.size());
    if (written_) return ::fsync(descriptor_) == 0 || errno == EINVAL ? Result<void>() : failure(errno);
    if (count > 0 && ::ftruncate(descriptor_, size_) != 0) return failure(errno);
    return failure(error);
  }

 private:
  std::unexpected<Error> failure(int error) const {
    return fail(Code::kIo, "cannot write to {}: {}", path_, std::strerror(error));
  }

  std::string path_, added_;
  int descriptor_ = -1;
  off_t size_ = 0;
  bool is_new_ = false, written_ = false;
};

/// A word of a key file's line, in which blanks and comments end words. Error: kInvalidArgument.
Result<void> check_word(std::string_view what, std::string_view word) {
  const bool one_word = std::ranges::none_of(word, [](char c) { return static_cast<unsigned char>(c) <= ' '; });
  if (one_word && !word.starts_with('#')) return {};
  return fail(Code::kInvalidArgument,
              "{} is one word without blanks and lines, and does not begin with #: \"{}\" is not", what,
              printable(word));
}

Result<void> run(const KeyFlags& flags) {
  CAIRN_TRY_VOID(check_word("the name of a key", flags.name));
  for (const std::string& rule : flags.rules) CAIRN_TRY_VOID(check_word("a rule of a key", rule));
  std::string key = random_id("sk-cairn-");
  if (flags.reads_key) {
    CAIRN_TRY(auto line, LineInput().next());
    key = std::move(line).value_or("");
  }
  CAIRN_TRY(const api::Key made, api::key_of(key, {}));
  std::string line = fmt::format("{} sha256:{}", flags.name, net::hex_text(made.digest));
  for (const std::string& rule : flags.rules) line += " " + rule;
  CAIRN_TRY_VOID(api::parse_keys(line, "the key"));
  std::unique_ptr<GrowingKeyFile> file;
  if (!flags.add_to.empty()) {
    CAIRN_TRY(file, GrowingKeyFile::open(flags.add_to, line));
  } else {
    std::fprintf(stderr, "line for the file of --api-key-file: ");
    CAIRN_TRY_VOID(show(line + "\n"));
  }
  if (!flags.reads_key) {
    std::fprintf(stderr, "the key, which is not stored anywhere: ");
    CAIRN_TRY_VOID(show(key + "\n"));
  }
  if (file == nullptr) return {};
  CAIRN_TRY_VOID(file->write());  // only now: nobody could use a key that nobody has seen
  std::fprintf(stderr, "added to %s: %s\n", flags.add_to.c_str(), line.c_str());
  return {};
}

}  // namespace

void add_key(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("key", "Make an API key for cairn serve --api-key-file");
  set_help(*command, "cairn key anna rpm=60 --add-to keys.txt");
  auto flags = std::make_shared<KeyFlags>();
  command->add_option("NAME", flags->name, "Whose key it is, for the log and for limits")->capture_default_str();
  command->add_option("RULES", flags->rules,
                      "What the key may do: models=PATTERN,... priority=batch rpm=N tpm=N concurrent=N no_disk manage "
                      "(default: use all models, without limits)");
  command
      ->add_option("--add-to", flags->add_to,
                   "Add the key to this file, which is created if it does not exist (default: print the line for it)")
      ->type_name("FILE");
  command->add_flag("--read", flags->reads_key, "Read the key from standard input, instead of making a new one");
  command->callback([flags, &exit_code] {
    if (const auto done = run(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
