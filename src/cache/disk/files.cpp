#include "cache/disk/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace cairn::cache::disk {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr mode_t kFolderMode = 0700;

std::unexpected<Error> io_error(std::string_view what, const std::string& path) {
  return fail_at(path, Code::kIo, "{}: {}", what, std::generic_category().message(errno));
}

class SystemFile final : public File {
 public:
  SystemFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~SystemFile() override { ::close(descriptor_); }
  SystemFile(const SystemFile&) = delete;
  SystemFile& operator=(const SystemFile&) = delete;

  Result<void> read(int64_t offset, std::span<std::byte> to) override {
    while (!to.empty()) {
      const ssize_t got = ::pread(descriptor_, to.data(), to.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return io_error("cannot read", path_);
      if (got == 0) return fail_at(path_, Code::kIo, "the file ends before byte {}", offset + std::ssize(to));
      to = to.subspan(static_cast<size_t>(got));
      offset += got;
    }
    return {};
  }
  void will_read(int64_t offset, int64_t bytes) override {
    (void)::posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_WILLNEED);  // a hint
  }
  Result<void> write(int64_t offset, std::span<const std::byte> from) override {
    while (!from.empty()) {
      const ssize_t put = ::pwrite(descriptor_, from.data(), from.size(), offset);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return io_error("cannot write", path_);
      from = from.subspan(static_cast<size_t>(put));
      offset += put;
    }
    return {};
  }
  Result<void> sync() override {
    if (::fdatasync(descriptor_) != 0) return io_error("cannot sync", path_);
    return {};
  }
  Result<int64_t> size() override {
    struct stat status{};
    if (::fstat(descriptor_, &status) != 0) return io_error("cannot look at", path_);
    return static_cast<int64_t>(status.st_size);
  }
  Result<void> resize(int64_t bytes) override {
    if (::ftruncate(descriptor_, bytes) != 0) return io_error("cannot resize", path_);
    return {};
  }
  bool punch(int64_t offset, int64_t bytes) override {
    return ::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes) == 0;
  }

 private:
  const int descriptor_;
  const std::string path_;
};

class SystemLock final : public FolderLock {
 public:
  explicit SystemLock(int descriptor) : descriptor_(descriptor) {}
  ~SystemLock() override { ::close(descriptor_); }
  SystemLock(const SystemLock&) = delete;
  SystemLock& operator=(const SystemLock&) = delete;

 private:
  const int descriptor_;
};

class SystemFiles final : public Files {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kFileMode);
    if (descriptor < 0) return io_error("cannot open", path);
    ::fchmod(descriptor, kFileMode);
    return std::make_unique<SystemFile>(descriptor, path);
  }
  bool exists(const std::string& path) override { return ::access(path.c_str(), F_OK) == 0; }
  Result<void> make_folder(const std::string& path) override {
    if (::mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) return io_error("cannot create the folder", path);
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return io_error("cannot look at", path);
    if (!S_ISDIR(status.st_mode)) return fail_at(path, Code::kIo, "is not a folder");
    if ((status.st_mode & 077) != 0 && ::chmod(path.c_str(), kFolderMode) != 0)
      return io_error("cannot close to other users", path);
    return {};
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return io_error("cannot rename", from);
    return {};
  }
  Result<void> remove(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) return fail_at(path, Code::kIo, "cannot remove: {}", error.message());
    return {};
  }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    std::error_code error;
    std::vector<std::string> names;
    for (auto entry = std::filesystem::directory_iterator(folder, error);
         !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) return fail_at(folder, Code::kIo, "cannot list: {}", error.message());
    std::ranges::sort(names);
    return names;
  }
  Result<void> sync_folder(const std::string& folder) override {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return io_error("cannot open", folder);
    const bool done = ::fsync(descriptor) == 0;
    const int why = errno;
    ::close(descriptor);
    errno = why;
    if (!done) return io_error("cannot sync", folder);
    return {};
  }
  Result<std::unique_ptr<FolderLock>> lock(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kFileMode);
    if (descriptor < 0) return io_error("cannot open", path);
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      const bool held = errno == EWOULDBLOCK;
      const auto refused = io_error("cannot lock", path);
      ::close(descriptor);
      if (held) return fail_at(path, Code::kUnavailable, "another process uses this folder");
      return refused;
    }
    return std::make_unique<SystemLock>(descriptor);
  }
};

}  // namespace

Result<std::unique_ptr<File>> replace_file(Files& files, const std::string& folder, const std::string& name,
                                           std::span<const std::byte> bytes) {
  const std::string path = folder + "/" + name;
  CAIRN_TRY(std::unique_ptr<File> file, files.open(path + ".new"));
  CAIRN_TRY_VOID(file->resize(0));
  CAIRN_TRY_VOID(file->write(0, bytes));
  CAIRN_TRY_VOID(file->sync());
  CAIRN_TRY_VOID(files.rename(path + ".new", path));
  CAIRN_TRY_VOID(files.sync_folder(folder));
  return file;
}

Result<std::vector<std::byte>> read_whole(File& file, int64_t bytes_max) {
  CAIRN_TRY(const int64_t size, file.size());
  if (size > bytes_max) return fail(Code::kCorruptFile, "{} bytes are more than such a file ever has", size);
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  CAIRN_TRY_VOID(file.read(0, bytes));
  return bytes;
}

std::unique_ptr<Files> system_files() { return std::make_unique<SystemFiles>(); }

}  // namespace cairn::cache::disk
