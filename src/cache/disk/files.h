/// Files as the disk tier uses them: few, large, written at given places. An interface, so that tests can stop, shorten
/// and spoil every single call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace cairn::cache::disk {

/// An open file. Errors: kIo, with the system's own words, in all functions. Calls for different ranges may come from
/// several threads at once.
class File {
 public:
  virtual ~File() = default;
  /// Fills `to`; a file that ends before is an error.
  virtual Result<void> read(int64_t offset, std::span<std::byte> to) = 0;
  /// The range is read soon: the system may begin with it. Does not wait for that.
  virtual void will_read(int64_t /*offset*/, int64_t /*bytes*/) {}
  /// Writes all of `from`, beyond the end as well.
  virtual Result<void> write(int64_t offset, std::span<const std::byte> from) = 0;
  /// Returns once everything written before is on the device.
  virtual Result<void> sync() = 0;
  virtual Result<int64_t> size() = 0;
  virtual Result<void> resize(int64_t bytes) = 0;
  /// Gives the range's blocks back to the file system, so that it reads as zeros; false if that cannot be done here.
  virtual bool punch(int64_t offset, int64_t bytes) = 0;
};

/// Held as long as it lives.
class FolderLock {
 public:
  virtual ~FolderLock() = default;
};

/// Folders and files by their paths. Errors: kIo, and kUnavailable from lock().
class Files {
 public:
  virtual ~Files() = default;
  /// Opens for reading and writing; creates it for the user alone (0600) if it is not there.
  virtual Result<std::unique_ptr<File>> open(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  /// Creates a folder for the user alone (0700) if it is not there, and takes others' access away if it is.
  virtual Result<void> make_folder(const std::string& path) = 0;
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  /// Removes a file or a folder with all in it.
  virtual Result<void> remove(const std::string& path) = 0;
  /// Names in the folder, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;
  /// Makes renames and new files in the folder durable.
  virtual Result<void> sync_folder(const std::string& folder) = 0;
  /// Error kUnavailable: another process, or another lock in this one, holds the file at `path`.
  virtual Result<std::unique_ptr<FolderLock>> lock(const std::string& path) = 0;
};

/// Replaces a file in one step: whoever opens it finds the old or the new bytes. Returns it open.
Result<std::unique_ptr<File>> replace_file(Files& files, const std::string& folder, const std::string& name,
                                           std::span<const std::byte> bytes);
/// All bytes of a file; kCorruptFile if it has more than `bytes_max`.
Result<std::vector<std::byte>> read_whole(File& file, int64_t bytes_max);

/// The machine's own files.
std::unique_ptr<Files> system_files();

}  // namespace cairn::cache::disk
