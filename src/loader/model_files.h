/// Whether the files of a loaded model still hold what was loaded: one that is downloaded again in place (`cp`,
/// `curl -o`) changes under the mapping.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::loader {

/// Sizes and times of files are looked at this often at most.
inline constexpr std::chrono::milliseconds kFileCheckInterval{1'000};

/// Thread-safe, but for `watch`.
class ModelFiles {
 public:
  /// Once its weights are loaded, and before check() is first asked. `reader` outlives this. From now on a file that is
  /// cut short no longer ends the program (MappedFile::survive_cuts).
  void watch(const gguf::Reader& reader);

  /// Error (kIo, with the file's name): a part of it was missing when it was read, or weights that are used where they
  /// lie in it are others now (gguf/fingerprint.h). It stays so, for what was read meanwhile may be anything. Cheap: a
  /// load for each file, and a system call for each after kFileCheckInterval.
  Result<void> check();

 private:
  struct Watched {
    const gguf::Reader* reader = nullptr;
    uint64_t fingerprint = 0;
  };
  const MappedFile* find_changed() const;

  std::vector<Watched> watched_;
  std::atomic<int64_t> next_look_ns_{0};
  std::mutex mutex_;
  std::optional<Error> changed_;
};

}  // namespace cairn::loader
