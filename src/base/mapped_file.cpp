#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace cairn {
namespace {

struct FileDescriptor {
  int value;
  ~FileDescriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.value < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return fail(Code::kNotFound, "no such file: {}", path.string());
    return fail(Code::kIo, "cannot open {}: {}", path.string(), std::strerror(errno));
  }
  struct stat status{};
  if (::fstat(file.value, &status) != 0)
    return fail(Code::kIo, "cannot stat {}: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return fail(Code::kIo, "{} is not a regular file", path.string());
  if (status.st_size == 0) return MappedFile({});
  const auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value, 0);
  if (address == MAP_FAILED) return fail(Code::kIo, "cannot map {}: {}", path.string(), std::strerror(errno));
  return MappedFile({static_cast<const std::byte*>(address), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace cairn
