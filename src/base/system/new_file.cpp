#include "base/system/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace cairn {
namespace {

constexpr std::string_view kPartialSuffix = ".partial";
// Process ids are reused, and one process may write several files of a name, so the next number is tried.
constexpr int kPartialNamesMax = 64;

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

std::unexpected<Error> io_failure(std::string_view what, const std::filesystem::path& path) {
  return fail(Code::kIo, "cannot {} {}: {}", what, path.string(), std::strerror(errno));
}

// Whether a file of that name holds what was to become `file_name`: FILE_NAME.PID-N.partial, or .PID.partial.
bool is_partial_of(std::string_view name, std::string_view file_name) {
  if (!name.starts_with(file_name)) return false;
  name.remove_prefix(file_name.size());
  if (!name.starts_with('.') || !name.ends_with(kPartialSuffix)) return false;
  name.remove_prefix(1);
  if (name.size() <= kPartialSuffix.size()) return false;
  name.remove_suffix(kPartialSuffix.size());
  const auto digits = [](std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  const size_t dash = name.find('-');
  return digits(name.substr(0, dash)) && (dash == std::string_view::npos || digits(name.substr(dash + 1)));
}

// Deletes a partial file, unless somebody writes it. What cannot be deleted stays.
void remove_abandoned(const std::filesystem::path& partial) {
  const int file = ::open(partial.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat status{};
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && ::flock(file, LOCK_EX | LOCK_NB) == 0)
    ::unlink(partial.c_str());
  ::close(file);
}

void remove_abandoned_of(const std::filesystem::path& path) {
  std::error_code error;
  const std::string file_name = path.filename().string();
  for (std::filesystem::directory_iterator at(folder_of(path), error), end; !error && at != end; at.increment(error)) {
    if (is_partial_of(at->path().filename().string(), file_name)) remove_abandoned(at->path());
  }
}

// Locks the new file. False: somebody has taken it for an abandoned one between its creation and here. Where the file
// system has no locks, nobody gets one, and nothing is deleted.
bool lock_new(int file) {
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat status{};
  return ::fstat(file, &status) != 0 || status.st_nlink > 0;
}

// Without that the file's entry may not reach the disk.
Result<void> sync_folder_of(const std::filesystem::path& path) {
  const auto folder = folder_of(path);
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return io_failure("open", folder);
  const bool synced = ::fsync(file) == 0 || errno == EINVAL;  // some file systems cannot sync folders
  auto result = synced ? Result<void>() : Result<void>(io_failure("sync", folder));
  ::close(file);
  return result;
}

}  // namespace

struct NewFile::State {
  std::filesystem::path path;
  std::filesystem::path partial;
  int file = -1;
  bool named = false;

  ~State() {
    if (file >= 0 && !named) ::unlink(partial.c_str());
    if (file >= 0) ::close(file);
  }

  Result<void> open_partial();
};

Result<void> NewFile::State::open_partial() {
  for (int attempt = 0; attempt < kPartialNamesMax; ++attempt) {
    partial = path;
    partial += fmt::format(".{}-{}{}", ::getpid(), attempt, kPartialSuffix);
    file = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) break;
    if (lock_new(file)) return {};
    ::close(std::exchange(file, -1));
  }
  return io_failure("create", partial);
}

Result<void> check_file_may_be_made(const std::filesystem::path& path) {
  std::error_code error;
  const auto there = std::filesystem::status(path, error);
  if (!std::filesystem::exists(there) || std::filesystem::is_regular_file(there)) return {};
  return fail(Code::kInvalidArgument, "cannot write {}: {} is there, which is no file", path.string(),
              std::filesystem::is_directory(there) ? "a folder" : "a device or a pipe");
}

NewFile::NewFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
NewFile::NewFile(NewFile&&) noexcept = default;
NewFile& NewFile::operator=(NewFile&&) noexcept = default;
NewFile::~NewFile() = default;

Result<NewFile> NewFile::create(const std::filesystem::path& path) {
  CAIRN_TRY_VOID(check_file_may_be_made(path));
  remove_abandoned_of(path);
  auto state = std::make_unique<State>();
  state->path = path;
  CAIRN_TRY_VOID(state->open_partial());
  return NewFile(std::move(state));
}

Result<void> NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(state_->file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_failure("write", state_->path);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<void> NewFile::resize(uint64_t bytes) {
  if (::ftruncate(state_->file, static_cast<off_t>(bytes)) != 0) return io_failure("make room in", state_->path);
  return {};
}

Result<void> NewFile::sync() {
  if (::fsync(state_->file) != 0) return io_failure("sync", state_->path);
  return {};
}

Result<void> NewFile::finish() {
  CAIRN_TRY_VOID(sync());
  if (::rename(state_->partial.c_str(), state_->path.c_str()) != 0) return io_failure("rename", state_->path);
  state_->named = true;
  if (::close(std::exchange(state_->file, -1)) != 0) return io_failure("close", state_->path);
  return sync_folder_of(state_->path);
}

}  // namespace cairn
