#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
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

bool MappedFile::release(std::span<const std::byte> part) const {
  // A part of another allocation may lie anywhere: addresses are compared as numbers.
  const auto address = [](const std::byte* at) { return reinterpret_cast<uintptr_t>(at); };
  const uintptr_t begin = address(part.data()), end = begin + part.size();
  if (part.empty() || begin < address(bytes_.data()) || end > address(bytes_.data()) + bytes_.size()) return false;
  // Pages that it shares with its neighbours stay.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  return true;
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
