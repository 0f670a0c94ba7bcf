#include "base/system/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

namespace cairn {
namespace {

struct FileDescriptor {
  int value;
  ~FileDescriptor() {
    if (value >= 0) ::close(value);
  }
};

uintptr_t page_bytes() {
  static const auto bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

uintptr_t address(const std::byte* at) { return reinterpret_cast<uintptr_t>(at); }

// ---- What the signal handler knows ----

constexpr size_t kPathBytesMax = 256;

// A mapping's entry for the signal handler. Free while `begin` is 0. Written under `slots_mutex`, `begin` last; the
// handler only loads, except `cut`.
struct Slot {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> survives{false}, cut{false};
  std::array<char, kPathBytesMax> path{};
};

std::array<Slot, kMappingsMax> slots;
std::mutex slots_mutex;
uintptr_t handler_page_bytes = 0;
struct sigaction action_before;

[[noreturn]] void end_with_words(const Slot& slot) {
  const auto say = [](std::string_view words) { return ::write(STDERR_FILENO, words.data(), words.size()); };
  (void)say("cairn: ");
  (void)say(slot.path.data());
  (void)say(": the file was cut short, or cannot be read, while it was in use\n");
  ::_exit(EXIT_FAILURE);
}

// Async-signal-safe: loads, stores, mmap, write, _exit.
void on_bus_error(int signal, siginfo_t* info, void*) {
  const int errno_before = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Slot& slot : slots) {
    const uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    const uintptr_t end = slot.end.load(std::memory_order_relaxed);
    if (begin == 0 || address < begin || address >= end) continue;
    if (!slot.survives.load(std::memory_order_relaxed)) end_with_words(slot);
    // Maps zeros from here to the end, since everything after the end of a file is missing.
    const uintptr_t page = address / handler_page_bytes * handler_page_bytes;
    slot.cut.store(true, std::memory_order_release);
    void* zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                         MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) end_with_words(slot);
    errno = errno_before;
    return;
  }
  // The address is in none of our mappings: the fault is repeated, and handled as before.
  ::sigaction(signal, &action_before, nullptr);
  errno = errno_before;
}

void install_handler() {
  handler_page_bytes = page_bytes();
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &action_before);
}

// Takes a free entry; kMappingsMax if there is none.
size_t take_slot(const std::byte* address, size_t bytes, const std::string& path) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  const std::lock_guard lock(slots_mutex);
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots[i];
    if (slot.begin.load(std::memory_order_relaxed) != 0) continue;
    // The end of a long path is the most informative part.
    const std::string_view shown =
        std::string_view(path).substr(path.size() - std::min(path.size(), kPathBytesMax - 1));
    slot.path.fill(0);
    std::ranges::transform(shown, slot.path.begin(), [](char c) { return c < ' ' || c == 0x7f ? '?' : c; });
    slot.survives.store(false, std::memory_order_relaxed);
    slot.cut.store(false, std::memory_order_relaxed);
    const auto begin = reinterpret_cast<uintptr_t>(address);
    // The kernel maps whole pages: in the last one, bytes after the file's end are zeros.
    slot.end.store((begin + bytes + page_bytes() - 1) / page_bytes() * page_bytes(), std::memory_order_relaxed);
    slot.begin.store(begin, std::memory_order_release);
    return i;
  }
  return kMappingsMax;
}

void give_slot_back(size_t slot) {
  if (slot == kMappingsMax) return;
  const std::lock_guard lock(slots_mutex);
  slots[slot].begin.store(0, std::memory_order_release);
}

int64_t modified_ns(const struct stat& status) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  return status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec;
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe without a writer is refused below rather than waited for.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.value < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return fail(Code::kNotFound, "no such file: {}", path.string());
    return fail(Code::kIo, "cannot open {}: {}", path.string(), std::strerror(errno));
  }
  struct stat status{};
  if (::fstat(file.value, &status) != 0)
    return fail(Code::kIo, "cannot stat {}: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return fail(Code::kIo, "{} is not a regular file", path.string());
  MappedFile mapped;
  mapped.path_ = path.string();
  mapped.identity_ = {status.st_dev, status.st_ino, status.st_size, modified_ns(status)};
  if (status.st_size == 0) return mapped;
  const auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value, 0);
  if (address == MAP_FAILED) return fail(Code::kIo, "cannot map {}: {}", path.string(), std::strerror(errno));
  mapped.bytes_ = {static_cast<const std::byte*>(address), size};
  mapped.slot_ = take_slot(mapped.bytes_.data(), size, mapped.path_);
  return mapped;
}

// A part may lie in another allocation, so addresses are compared as numbers.
bool MappedFile::contains(std::span<const std::byte> part) const {
  const uintptr_t begin = address(part.data()), end = begin + part.size();
  return !part.empty() && begin >= address(bytes_.data()) && end <= address(bytes_.data()) + bytes_.size();
}

bool MappedFile::release(std::span<const std::byte> part) const {
  if (!contains(part)) return false;
  const uintptr_t begin = address(part.data()), end = begin + part.size();
  // Pages shared with neighbouring bytes are kept.
  const uintptr_t page = page_bytes();
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  return true;
}

bool MappedFile::warm(std::span<const std::byte> part) const {
  if (!contains(part)) return false;
  const uintptr_t page = page_bytes();
  const uintptr_t first = address(part.data()) / page * page, end = address(part.data()) + part.size();
  auto* const begin = reinterpret_cast<void*>(first);
  ::madvise(begin, end - first, MADV_WILLNEED);
  // Pages beyond the end of a file that was cut short are an error here, and not a signal.
  if (::madvise(begin, end - first, MADV_POPULATE_READ) == 0 || errno != EINVAL) return true;
  // A kernel older than 5.14 does not know that.
  for (uintptr_t at = address(part.data()); at < end; at = at / page * page + page)
    (void)*reinterpret_cast<const volatile std::byte*>(at);
  return true;
}

void MappedFile::survive_cuts() const {
  if (slot_ != kMappingsMax) slots[slot_].survives.store(true, std::memory_order_relaxed);
}

bool MappedFile::was_cut() const { return slot_ != kMappingsMax && slots[slot_].cut.load(std::memory_order_acquire); }

bool MappedFile::was_rewritten() const {
  struct stat status{};
  if (::stat(path_.c_str(), &status) != 0) return false;
  if (status.st_dev != identity_.device || status.st_ino != identity_.inode) return false;
  return status.st_size != identity_.bytes || modified_ns(status) != identity_.modified_ns;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  std::swap(slot_, other.slot_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  give_slot_back(slot_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace cairn
