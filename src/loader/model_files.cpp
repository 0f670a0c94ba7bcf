#include "loader/model_files.h"

#include <filesystem>

#include "base/log.h"
#include "base/text/utf8.h"
#include "gguf/fingerprint.h"

namespace cairn::loader {

void ModelFiles::watch(const gguf::Reader& reader) {
  reader.survive_cuts();
  watched_.push_back({&reader, gguf::fingerprint(reader)});
}

// A file that was only touched has its fingerprint still.
const MappedFile* ModelFiles::find_changed() const {
  for (const Watched& watched : watched_) {
    if (!watched.reader->used_in_place()) continue;
    const MappedFile* file = watched.reader->find_rewritten();
    if (file != nullptr && gguf::fingerprint(*watched.reader) != watched.fingerprint) return file;
  }
  return nullptr;
}

Result<void> ModelFiles::check() {
  const MappedFile* file = nullptr;
  for (const Watched& watched : watched_) {
    if (file == nullptr) file = watched.reader->find_cut();
  }
  const int64_t now_ns = std::chrono::steady_clock::now().time_since_epoch().count();
  const bool look = file == nullptr && now_ns >= next_look_ns_.load(std::memory_order_relaxed);
  if (look) {
    next_look_ns_.store(now_ns + std::chrono::nanoseconds(kFileCheckInterval).count(), std::memory_order_relaxed);
    file = find_changed();
  }
  const std::lock_guard lock(mutex_);
  if (file != nullptr && !changed_) {
    const std::string name = utf8_replace_invalid(std::filesystem::path(file->path()).filename().string());
    changed_ = Error{Code::kIo,
                     fmt::format("the model's file {} has changed on disk since it was loaded; restart the server or "
                                 "unload the model to have it loaded again, and replace models by renaming rather "
                                 "than writing over them",
                                 name),
                     {}};
    log_error("{} has changed on disk since it was loaded: it answers no more until it is loaded again", file->path());
  }
  if (changed_) return std::unexpected(*changed_);
  return {};
}

}  // namespace cairn::loader
