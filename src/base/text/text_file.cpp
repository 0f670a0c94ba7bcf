#include "base/text/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text/printable.h"
#include "base/text/utf8.h"

namespace cairn {
namespace {

constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr std::string_view kUtf16LittleMark = "\xff\xfe";
constexpr std::string_view kUtf16BigMark = "\xfe\xff";
constexpr std::string_view kUtf32LittleMark("\xff\xfe\0\0", 4);
constexpr std::string_view kUtf32BigMark("\0\0\xfe\xff", 4);
constexpr std::string_view kInputName = "standard input";
constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kPathShownMax = 300;

/// A descriptor, which is closed with it unless it is standard input.
class TextInput {
 public:
  explicit TextInput(int descriptor) : descriptor_(descriptor) {}
  ~TextInput() {
    if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
  }
  TextInput(const TextInput&) = delete;
  TextInput& operator=(const TextInput&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Result<std::string> utf8_of_utf16(std::string_view bytes, bool big, std::string_view what) {
  const auto unit = [&](size_t at) {
    const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(bytes[i])); };
    return big ? byte(at) << 8 | byte(at + 1) : byte(at + 1) << 8 | byte(at);
  };
  std::string text;
  for (size_t at = kUtf16BigMark.size(); at < bytes.size(); at += 2) {
    if (at + 1 == bytes.size())
      return fail(Code::kInvalidArgument, "{} is UTF-16 that ends within a character, at byte {}", what, at);
    char32_t value = unit(at);
    if (value >= 0xDC00 && value < 0xE000)
      return fail(Code::kInvalidArgument, "{} is no UTF-16 at byte {}: half of a surrogate pair", what, at);
    if (value >= 0xD800 && value < 0xDC00) {
      const char32_t second = at + 3 < bytes.size() ? unit(at + 2) : 0;
      if (second < 0xDC00 || second >= 0xE000)
        return fail(Code::kInvalidArgument, "{} is no UTF-16 at byte {}: half of a surrogate pair", what, at);
      value = 0x10000 + ((value - 0xD800) << 10) + (second - 0xDC00);
      at += 2;
    }
    utf8_append(text, value);
  }
  return text;
}

std::unexpected<Error> unreadable(std::string_view name) {
  return fail(Code::kIo, "{} cannot be read: {}", name, std::strerror(errno));
}

std::unexpected<Error> too_large(std::string_view name, size_t bytes_max) {
  return fail(Code::kTooLarge, "{} has over {} bytes, which is the most that is read", name, bytes_max);
}

Result<std::string> read_all(int descriptor, const std::string& name, size_t bytes_max) {
  std::string bytes;
  while (bytes.size() <= bytes_max) {
    const size_t begin = bytes.size();
    const size_t room = std::min(kReadBytes, bytes_max + 1 - begin);
    bytes.resize(begin + room);
    ssize_t count = 0;
    do count = ::read(descriptor, bytes.data() + begin, room);
    while (count < 0 && errno == EINTR);
    if (count < 0) return unreadable(name);
    bytes.resize(begin + static_cast<size_t>(count));
    if (count == 0) return bytes;
  }
  return too_large(name, bytes_max);
}

std::string name_of(std::string_view what, const std::string& path) {
  return fmt::format("{}: {}", what, path.empty() ? "an empty text" : printable(path, kPathShownMax));
}

/// Says why there is nothing to read. The path is looked at before it is opened, as opening a pipe may wait.
Result<void> check_kind(const std::string& path, const std::string& name) {
  struct stat about{};
  if (::stat(path.c_str(), &about) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return fail(Code::kNotFound, "{} is no file: there is nothing", name);
    return unreadable(name);
  }
  const bool from_shell = (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode)) &&
                          (path.starts_with("/dev/") || path.starts_with("/proc/self/fd/"));
  if (S_ISREG(about.st_mode) || from_shell) return {};
  return fail(Code::kInvalidArgument, "{} is no file, but {}", name,
              S_ISDIR(about.st_mode)    ? "a folder"
              : S_ISFIFO(about.st_mode) ? "a named pipe"
              : S_ISSOCK(about.st_mode) ? "a socket"
                                        : "a device");
}

}  // namespace

Result<std::string> text_of_bytes(std::string bytes, std::string_view what) {
  const std::string_view view = bytes;
  if (view.starts_with(kUtf32LittleMark) || view.starts_with(kUtf32BigMark))
    return fail(Code::kInvalidArgument, "{} is UTF-32; save it as UTF-8", what);
  const bool big = view.starts_with(kUtf16BigMark);
  if (big || view.starts_with(kUtf16LittleMark)) {
    CAIRN_TRY(bytes, utf8_of_utf16(view, big, what));
  } else if (view.starts_with(kUtf8Mark)) {
    bytes.erase(0, kUtf8Mark.size());
  }
  CAIRN_TRY_VOID(check_text(bytes, what));
  return bytes;
}

Result<void> check_text(std::string_view text, std::string_view what) {
  if (const size_t at = text.find('\0'); at != std::string_view::npos)
    return fail(Code::kInvalidArgument,
                "{} has a NUL character at byte {}: it is no text, or UTF-16 without a mark; save it as UTF-8", what,
                at);
  if (const size_t at = utf8_valid_prefix(text); at != text.size())
    return fail(Code::kInvalidArgument, "{} is not valid UTF-8 at byte {}", what, at);
  return {};
}

Result<void> check_is_file(const std::string& path, std::string_view what) {
  const std::string name = name_of(what, path);
  CAIRN_TRY_VOID(check_kind(path, name));
  if (::access(path.c_str(), R_OK) != 0) return unreadable(name);
  return {};
}

Result<std::string> read_text_file(const std::string& path, std::string_view what, size_t bytes_max) {
  const std::string name = name_of(what, path);
  CAIRN_TRY_VOID(check_kind(path, name));
  const TextInput file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (file.get() < 0) return unreadable(name);
  CAIRN_TRY(std::string bytes, read_all(file.get(), name, bytes_max));
  return text_of_bytes(std::move(bytes), name);
}

Result<std::string> read_standard_input(std::string_view what, size_t bytes_max) {
  const std::string name = fmt::format("{}: standard input", what);
  CAIRN_TRY(std::string bytes, read_all(STDIN_FILENO, name, bytes_max));
  return text_of_bytes(std::move(bytes), name);
}

Result<bool> LineInput::fill() {
  const size_t before = pending_.size();
  pending_.resize(before + kReadBytes);
  ssize_t count = 0;
  do count = ::read(descriptor_, pending_.data() + before, kReadBytes);
  while (count < 0 && errno == EINTR && (interrupted_ == nullptr || !*interrupted_));
  pending_.resize(before + static_cast<size_t>(std::max<ssize_t>(0, count)));
  if (count < 0 && errno != EINTR) return unreadable(kInputName);
  return count > 0;
}

Result<void> LineInput::begin() {
  const auto may_become_mark = [&] {
    return std::ranges::any_of(std::array{kUtf8Mark, kUtf16LittleMark, kUtf16BigMark}, [&](std::string_view mark) {
      return pending_.size() < mark.size() && mark.starts_with(pending_);
    });
  };
  bool more = true;
  while (more && may_become_mark()) {
    CAIRN_TRY(more, fill());
  }
  begun_ = !pending_.empty();
  if (pending_.starts_with(kUtf8Mark)) taken_ = kUtf8Mark.size();
  if (!pending_.starts_with(kUtf16LittleMark) && !pending_.starts_with(kUtf16BigMark)) return {};
  while (more && pending_.size() <= kTextFileBytesMax) {
    CAIRN_TRY(more, fill());
  }
  if (more) return too_large(kInputName, kTextFileBytesMax);
  CAIRN_TRY(pending_, text_of_bytes(std::move(pending_), kInputName));
  return {};
}

Result<std::optional<std::string>> LineInput::next() {
  if (!begun_) CAIRN_TRY_VOID(begin());
  if (!begun_) return std::nullopt;
  std::string line;
  while (true) {
    const std::string_view left = std::string_view(pending_).substr(taken_);
    const size_t end = left.find('\n');
    line += left.substr(0, end).substr(0, kInputLineBytesMax + 1 - line.size());
    if (end != std::string_view::npos) {
      taken_ += end + 1;
      return line;
    }
    pending_.clear();
    taken_ = 0;
    CAIRN_TRY(const bool more, fill());
    if (more) continue;
    if (line.empty() || (interrupted_ != nullptr && *interrupted_)) return std::nullopt;
    return line;
  }
}

Result<void> check_line_length(std::string_view line) {
  if (line.size() <= kInputLineBytesMax) return {};
  return fail(Code::kTooLarge, "the line has over {} bytes, which is the most that is read", kInputLineBytesMax);
}

}  // namespace cairn
