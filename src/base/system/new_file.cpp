#include "base/system/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace cairn {

struct NewFile::State {
  std::filesystem::path path;
  std::filesystem::path unfinished;
  int file = -1;
  bool named = false;

  ~State() {
    if (file >= 0) ::close(file);
    if (!named) ::unlink(unfinished.c_str());
  }

  std::unexpected<Error> failure(std::string_view what) const {
    return fail(Code::kIo, "cannot {} {}: {}", what, path.string(), std::strerror(errno));
  }
};

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
  auto state = std::make_unique<State>();
  state->path = path;
  state->unfinished = path.string() + fmt::format(".{}.partial", ::getpid());
  state->file = ::open(state->unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (state->file < 0) {
    state->named = true;  // nothing of ours lies there
    return state->failure("create");
  }
  return NewFile(std::move(state));
}

Result<void> NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(state_->file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return state_->failure("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<void> NewFile::finish() {
  if (::fsync(state_->file) != 0) return state_->failure("sync");
  if (::close(std::exchange(state_->file, -1)) != 0) return state_->failure("close");
  if (::rename(state_->unfinished.c_str(), state_->path.c_str()) != 0) return state_->failure("rename");
  state_->named = true;
  return {};
}

}  // namespace cairn
