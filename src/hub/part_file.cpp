#include "hub/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/text/json.h"
#include "gguf/model_folder.h"

namespace cairn::hub {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::milliseconds kLockInterval{200};
constexpr mode_t kFileMode = 0666;  // less the umask
constexpr size_t kSpansMax = 4'096;
constexpr size_t kStateBytesMax = 1 << 20;
constexpr int kStateVersion = 1;

std::unexpected<Error> io_error(const std::filesystem::path& path, std::string_view what, int number) {
  const std::string folder = path.parent_path().string();
  const std::string why = std::generic_category().message(number);
  if (number == ENOSPC || number == EDQUOT)
    return fail(Code::kIo, "the disk of {} is full ({}): make room and pull again, which goes on where it stopped",
                folder, why);
  if (number == EFBIG)
    return fail(Code::kIo, "{} may not become so large ({}): raise the limit (ulimit -f) and pull again", path.string(),
                why);
  if (number == EACCES || number == EROFS || number == EPERM)
    return fail(Code::kIo, "{} cannot be written to ({}): choose another folder with --models", folder, why);
  return fail(Code::kIo, "cannot {} {}: {}", what, path.string(), why);
}

/// Makes renamed and deleted names durable; a file system that cannot do so is left alone.
void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

/// Whether `descriptor` is still the file of that name, and not one that was renamed or deleted meanwhile.
bool is_named(int descriptor, const std::filesystem::path& path) {
  struct stat open_file{}, named{};
  return ::fstat(descriptor, &open_file) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

std::filesystem::path with_suffix(std::filesystem::path path, std::string_view suffix) {
  path += suffix;
  return path;
}

}  // namespace

std::filesystem::path part_path(const std::filesystem::path& target) { return with_suffix(target, gguf::kPartSuffix); }
std::filesystem::path state_path(const std::filesystem::path& target) {
  return with_suffix(part_path(target), ".json");
}

PartFile::PartFile(std::filesystem::path target, int descriptor)
    : target_(std::move(target)), descriptor_(descriptor) {}
PartFile::PartFile(PartFile&& other) noexcept
    : target_(std::move(other.target_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
PartFile::~PartFile() {
  if (descriptor_ >= 0) ::close(descriptor_);  // which ends the lock
}

Result<PartFile> PartFile::open(const std::filesystem::path& target, const std::function<void()>& on_wait,
                                const std::atomic<bool>& cancelled) {
  const std::filesystem::path path = part_path(target);
  std::error_code error;
  std::filesystem::create_directories(target.parent_path(), error);
  if (error) return io_error(path, "make the folder of", error.value());
  while (true) {
    PartFile file(target, ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode));
    if (file.descriptor_ < 0) return io_error(path, "open", errno);
    if (::flock(file.descriptor_, LOCK_EX | LOCK_NB) == 0) {
      if (is_named(file.descriptor_, path)) return file;
      continue;  // it was renamed or deleted after it was opened
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return io_error(path, "lock", errno);
    on_wait();
    if (!wait_unless(cancelled, kLockInterval)) return fail(Code::kCancelled, "stopped");
  }
}

DownloadState PartFile::state(int64_t bytes, const std::string& sha256) const {
  DownloadState nothing{.bytes = bytes, .sha256 = sha256, .etag = {}, .loaded = {}};
  std::ifstream file(state_path(target_), std::ios::binary);
  std::string text(kStateBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  const auto read = read_state(text);
  struct stat status{};
  if (!read || read->bytes != bytes || read->sha256 != sha256 || ::fstat(descriptor_, &status) != 0) return nothing;
  if (!read->loaded.spans().empty() && read->loaded.spans().back().end > status.st_size) return nothing;
  return *read;
}

Result<void> PartFile::write(std::string_view bytes, int64_t at) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(part_path(target_), "write to", errno);
    bytes.remove_prefix(static_cast<size_t>(count));
    at += count;
  }
  return {};
}

Result<void> PartFile::empty() {
  if (::ftruncate(descriptor_, 0) != 0) return io_error(part_path(target_), "empty", errno);
  return {};
}

Result<void> PartFile::save(const DownloadState& state) {
  if (::fdatasync(descriptor_) != 0) return io_error(part_path(target_), "write to", errno);
  const std::filesystem::path path = state_path(target_);
  const std::filesystem::path fresh = with_suffix(path, ".new");
  {
    std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
    file << write_state(state);
    file.close();
    if (!file) {
      const int number = errno;
      std::error_code ignored;
      std::filesystem::remove(fresh, ignored);
      return io_error(fresh, "write", number);
    }
  }
  std::error_code error;
  std::filesystem::rename(fresh, path, error);
  if (error) return io_error(path, "write", error.value());
  return {};
}

Result<void> PartFile::finish() {
  if (::fsync(descriptor_) != 0) return io_error(part_path(target_), "write to", errno);
  std::error_code error;
  std::filesystem::rename(part_path(target_), target_, error);
  if (error) return io_error(target_, "write", error.value());
  std::filesystem::remove(state_path(target_), error);
  sync_folder(target_.parent_path());
  return {};
}

void PartFile::remove() {
  std::error_code ignored;
  std::filesystem::remove(state_path(target_), ignored);
  std::filesystem::remove(part_path(target_), ignored);
}

void LoadedRanges::add(ByteSpan span) {
  if (span.bytes() <= 0) return;
  std::vector<ByteSpan> merged;
  for (const ByteSpan& other : spans_) {
    if (other.end < span.begin || other.begin > span.end) {
      merged.push_back(other);
    } else {
      span = {std::min(span.begin, other.begin), std::max(span.end, other.end)};
    }
  }
  merged.insert(std::ranges::lower_bound(merged, span.begin, {}, &ByteSpan::begin), span);
  spans_ = std::move(merged);
}

int64_t LoadedRanges::bytes() const {
  int64_t sum = 0;
  for (const ByteSpan& span : spans_) sum += span.bytes();
  return sum;
}

std::vector<ByteSpan> LoadedRanges::missing(int64_t bytes, int64_t piece_bytes) const {
  std::vector<ByteSpan> pieces;
  const auto cut = [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += piece_bytes) pieces.push_back({begin, std::min(begin + piece_bytes, end)});
  };
  int64_t at = 0;
  for (const ByteSpan& span : spans_) {
    cut(at, std::min(span.begin, bytes));
    at = span.end;
  }
  cut(at, bytes);
  return pieces;
}

std::string write_state(const DownloadState& state) {
  ordered_json loaded = ordered_json::array();
  for (const ByteSpan& span : state.loaded.spans()) loaded.push_back({span.begin, span.end});
  const ordered_json json = {{"version", kStateVersion},
                             {"bytes", state.bytes},
                             {"sha256", state.sha256},
                             {"etag", state.etag},
                             {"loaded", std::move(loaded)}};
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::optional<DownloadState> read_state(std::string_view json) {
  const auto read = read_json(json);
  if (!read || !read->is_object()) return std::nullopt;
  const auto integer = [](const ordered_json& value) {
    return value.is_number_integer() ? value.get<int64_t>() : int64_t{-1};
  };
  const auto member = [&](const char* name) -> ordered_json {
    return read->contains(name) ? (*read)[name] : ordered_json();
  };
  const ordered_json sha256 = member("sha256"), etag = member("etag"), loaded = member("loaded");
  DownloadState state;
  state.bytes = integer(member("bytes"));
  if (integer(member("version")) != kStateVersion || state.bytes < 0 || !sha256.is_string() || !etag.is_string() ||
      !loaded.is_array() || loaded.size() > kSpansMax)
    return std::nullopt;
  state.sha256 = sha256.get<std::string>();
  state.etag = etag.get<std::string>();
  for (const ordered_json& span : loaded) {
    if (!span.is_array() || span.size() != 2) return std::nullopt;
    const ByteSpan range{integer(span[0]), integer(span[1])};
    if (range.begin < 0 || range.end <= range.begin || range.end > state.bytes) return std::nullopt;
    state.loaded.add(range);
  }
  return state;
}

}  // namespace cairn::hub
