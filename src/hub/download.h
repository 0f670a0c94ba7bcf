/// Fetches one file into place: over several connections, resumed after a cut, checked, and complete or not there.
///
/// Bytes go to TARGET.part; TARGET.part.json says which of them are on the disk, so that a later call, of another
/// process too, goes on from there. A lock on TARGET.part lets one at a time load a file; others wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hub/hub_requests.h"

namespace cairn::hub {

struct DownloadLimits {
  int connections = 4;                             ///< of a file that has so many pieces
  int64_t piece_bytes = 64ll << 20;                ///< what one request asks for
  int attempts = 6;                                ///< of a piece, without progress in between
  int64_t progress_bytes = 64ll << 10;             ///< what counts as progress
  std::chrono::milliseconds first_wait{500};       ///< before the second attempt; doubles up to a minute
  std::chrono::seconds stall{30};                  ///< a connection without a byte for so long is given up
  std::chrono::milliseconds report_interval{100};  ///< between calls of the progress function
};

struct DownloadSource {
  std::string url;
  std::string token;  ///< for the URL's own host; empty: none
  int64_t bytes = 0;
  std::string sha256;  ///< 64 lower-case hexadecimal digits; empty: only the size is checked
};

struct DownloadProgress {
  enum class Stage { kWaiting, kLoading, kVerifying } stage = Stage::kLoading;
  int64_t completed = 0, total = 0;  ///< bytes, of the stage
};
using OnProgress = std::function<void(const DownloadProgress&)>;

/// Returns when TARGET is whole on the disk; a file there that has the size and the checksum is left as it is. Blocks.
/// Errors: kCancelled (what is loaded stays), kUnavailable (no answer after all attempts; it stays), kIo (disk full,
/// folder not writable; named), kCorruptFile (wrong size or checksum, no GGUF file; nothing stays), and those of the
/// hub's answers (kNotFound, kInvalidArgument).
Result<void> download(const DownloadSource& source, const std::filesystem::path& target, const DownloadLimits& limits,
                      const OnProgress& on_progress, const std::atomic<bool>& cancelled);

/// Bytes that are there of an unfinished download of this file.
int64_t loaded_bytes(const std::filesystem::path& target, const DownloadSource& source);
/// The two files beside TARGET while it is not complete.
std::filesystem::path part_path(const std::filesystem::path& target);
std::filesystem::path state_path(const std::filesystem::path& target);

/// Which bytes of a file are on the disk.
class LoadedRanges {
 public:
  void add(ByteSpan span);
  void clear() { spans_.clear(); }
  int64_t bytes() const;
  /// What is missing of [0, bytes), in pieces of at most `piece_bytes`, in order.
  std::vector<ByteSpan> missing(int64_t bytes, int64_t piece_bytes) const;
  std::span<const ByteSpan> spans() const { return spans_; }

 private:
  std::vector<ByteSpan> spans_;  // in order, neither touching nor overlapping
};

/// TARGET.part.json.
struct DownloadState {
  int64_t bytes = 0;
  std::string sha256;
  std::string etag;  ///< of the server that sent the bytes, where there is no checksum
  LoadedRanges loaded;
};
std::string write_state(const DownloadState& state);
/// nullopt for anything but a state that write_state may have written.
std::optional<DownloadState> read_state(std::string_view json);

/// SHA-256 of a file, in hexadecimal. `on_bytes` gets the number of bytes that were read; false ends it (kCancelled).
Result<std::string> sha256_of(const std::filesystem::path& path, const std::function<bool(int64_t)>& on_bytes);

}  // namespace cairn::hub
