/// The file that a download writes to, and what is known of it on the disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "hub/download.h"

namespace cairn::hub {

/// Open and locked; the lock ends with it. Move-only.
class PartFile {
 public:
  /// Makes the folders and opens TARGET.part, once no one else has it. `on_wait` is called each time that it waits;
  /// then TARGET may be complete. Errors: kIo, kCancelled.
  static Result<PartFile> open(const std::filesystem::path& target, const std::function<void()>& on_wait,
                               const std::atomic<bool>& cancelled);
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&& other) = delete;
  ~PartFile();

  /// What is loaded; empty unless the state is one of a file of this size and checksum.
  DownloadState state(int64_t bytes, const std::string& sha256) const;
  /// Errors: kIo, which names the folder and says whether the disk is full.
  Result<void> write(std::string_view bytes, int64_t at);
  /// Forgets all bytes.
  Result<void> empty();
  /// Makes the bytes durable, and then the state that says so.
  Result<void> save(const DownloadState& state);
  /// Makes the file TARGET.
  Result<void> finish();
  /// Deletes it with its state.
  void remove();

 private:
  PartFile(std::filesystem::path target, int descriptor);
  std::filesystem::path target_;
  int descriptor_ = -1;
};

}  // namespace cairn::hub
