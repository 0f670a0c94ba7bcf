#include "terminal/input_history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "base/system/new_file.h"

namespace cairn::terminal {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHistoryReadBytes = 64 << 10;
constexpr mode_t kOwnerAlone = S_IRUSR | S_IWUSR;
/// Bytes of the end of a file that are read: other programs may have made it longer.
constexpr off_t kHistoryBytesMax = 8 << 20;

/// Closes a descriptor when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

std::unexpected<Error> history_failure(const fs::path& file) {
  return fail(Code::kIo, "the history {} cannot be kept: {}", file.string(), std::strerror(errno));
}

/// One line of the file.
std::string line_of(std::string_view message) {
  std::string line;
  line.reserve(message.size() + 1);
  for (const char byte : message) {
    if (byte == '\n') {
      line += "\\n";
    } else if (byte == '\\') {
      line += "\\\\";
    } else {
      line += byte;
    }
  }
  return line += '\n';
}

std::string message_of(std::string_view line) {
  std::string message;
  message.reserve(line.size());
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      message += line[i];
    } else {
      ++i;
      message += line[i] == 'n' ? '\n' : line[i];
    }
  }
  return message;
}

std::vector<std::string> messages_of(std::string_view text) {
  std::vector<std::string> messages;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) messages.push_back(message_of(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return messages;
}

Result<std::string> read_end(const fs::path& file, int descriptor) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) return history_failure(file);
  if (!S_ISREG(status.st_mode)) {
    errno = EINVAL;
    return history_failure(file);
  }
  off_t at = std::max<off_t>(0, status.st_size - kHistoryBytesMax);
  std::string text;
  std::string block(kHistoryReadBytes, '\0');
  while (true) {
    const ssize_t got = ::pread(descriptor, block.data(), block.size(), at);
    if (got < 0) return history_failure(file);
    if (got == 0) return text;
    text.append(block, 0, static_cast<size_t>(got));
    at += got;
  }
}

Result<void> append(const fs::path& file, std::string_view text) {
  const Descriptor opened(::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kOwnerAlone));
  if (opened.number() < 0 || ::write(opened.number(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return history_failure(file);
  return {};
}

Result<void> write_anew(const fs::path& file, std::span<const std::string> messages) {
  CAIRN_TRY(NewFile made, NewFile::create(file));
  for (const std::string& message : messages) {
    const std::string line = line_of(message);
    CAIRN_TRY_VOID(made.write(std::as_bytes(std::span(line))));
  }
  CAIRN_TRY_VOID(made.finish());
  if (::chmod(file.c_str(), kOwnerAlone) != 0) return history_failure(file);
  return {};
}

}  // namespace

fs::path default_history_file() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && fs::path(state).is_absolute()) return fs::path(state) / "cairn" / "history";
  const char* const home = std::getenv("HOME");
  if (home == nullptr || !fs::path(home).is_absolute()) return {};
  return fs::path(home) / ".local" / "state" / "cairn" / "history";
}

Result<InputHistory> InputHistory::open(const fs::path& file) {
  std::error_code error;
  const fs::path folder = file.parent_path();
  if (fs::create_directories(folder, error)) fs::permissions(folder, fs::perms::owner_all, error);
  const Descriptor opened(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK,
                                 kOwnerAlone));  // a pipe's reader is not waited for
  if (opened.number() < 0) return history_failure(file);
  CAIRN_TRY(const std::string text, read_end(file, opened.number()));
  if (::fchmod(opened.number(), kOwnerAlone) != 0) return history_failure(file);
  InputHistory history;
  history.file_ = file;
  history.entries_ = messages_of(text);
  if (history.entries_.size() > kHistoryEntriesMax) {
    const auto old = static_cast<ptrdiff_t>(history.entries_.size() - kHistoryEntriesMax);
    history.entries_.erase(history.entries_.begin(), history.entries_.begin() + old);
    CAIRN_TRY_VOID(write_anew(file, history.entries_));
  }
  return history;
}

Result<void> InputHistory::add(std::string_view message) {
  if (message.empty() || (!entries_.empty() && entries_.back() == message)) return {};
  entries_.emplace_back(message);
  if (file_.empty() || message.size() > kHistoryEntryBytesMax) return {};
  return append(file_, line_of(message));
}

}  // namespace cairn::terminal
