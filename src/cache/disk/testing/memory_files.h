/// Files in memory for tests, which remember what was synced, and can stop, refuse and spoil.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cache/disk/files.h"

namespace cairn::cache::disk {

/// What lies on the simulated disk, which outlives processes.
struct MemoryDisk {
  struct Content {
    std::vector<std::byte> bytes;
    std::vector<std::byte> synced;
    std::vector<std::pair<int64_t, std::vector<std::byte>>> since;  // writes after the last sync
  };
  std::map<std::string, std::shared_ptr<Content>> files;
  std::set<std::string> folders;
  std::set<std::string> locks;

  /// What is left after a loss of power: of each write that was not synced, all, nothing or its beginning.
  void lose_power(std::mt19937_64& random) {
    for (auto& [path, content] : files) {
      std::vector<std::byte> left = content->synced;
      for (const auto& [offset, bytes] : content->since) {
        size_t kept = random() % 3 == 0 ? 0 : random() % 2 == 0 ? bytes.size() : random() % (bytes.size() + 1);
        if (kept == 0) continue;
        left.resize(std::max(left.size(), static_cast<size_t>(offset) + kept));
        std::memcpy(left.data() + offset, bytes.data(), kept);
      }
      content->bytes = content->synced = left;
      content->since.clear();
    }
    locks.clear();
  }
};

/// One process's view of the disk.
class MemoryFiles : public Files {
 public:
  explicit MemoryFiles(MemoryDisk& disk) : disk_(disk) {}

  int64_t calls_left = -1;  ///< changing calls until the process is dead: the last of them is done by half; -1: never
  int64_t bytes_left = -1;  ///< bytes that files may grow by until the disk is full; -1: any
  bool read_only = false;
  bool cannot_read = false;  ///< reads fail, as on a bad disk
  bool can_punch = true;
  int64_t changes = 0;  ///< changing calls so far

  Result<std::unique_ptr<File>> open(const std::string& path) override {
    auto& content = disk_.files[path];
    if (content == nullptr) {
      if (read_only || !alive()) {
        disk_.files.erase(path);
        return fail_at(path, Code::kIo, "cannot open: read-only file system");
      }
      content = std::make_shared<MemoryDisk::Content>();
    }
    return std::make_unique<Open>(*this, content);
  }
  bool exists(const std::string& path) override { return disk_.files.contains(path); }
  Result<void> make_folder(const std::string& path) override {
    if (disk_.folders.contains(path)) return {};
    CAIRN_TRY_VOID(change());
    disk_.folders.insert(path);
    return {};
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    CAIRN_TRY_VOID(change());
    disk_.files[to] = disk_.files.at(from);
    disk_.files.erase(from);
    return {};
  }
  Result<void> remove(const std::string& path) override {
    CAIRN_TRY_VOID(change());
    disk_.folders.erase(path);
    std::erase_if(disk_.files,
                  [&](const auto& entry) { return entry.first == path || entry.first.starts_with(path + "/"); });
    return {};
  }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    std::set<std::string> names;
    const auto add = [&](const std::string& path) {
      if (path.starts_with(folder + "/"))
        names.insert(path.substr(folder.size() + 1).substr(0, path.find('/', folder.size() + 1) - folder.size() - 1));
    };
    for (const auto& [path, content] : disk_.files) add(path);
    for (const std::string& path : disk_.folders) add(path);
    return std::vector<std::string>(names.begin(), names.end());
  }
  Result<void> sync_folder(const std::string&) override { return alive() ? Result<void>() : dead(); }
  Result<std::unique_ptr<FolderLock>> lock(const std::string& path) override {
    if (read_only) return fail_at(path, Code::kIo, "cannot open: read-only file system");
    if (!disk_.locks.insert(path).second) return fail_at(path, Code::kUnavailable, "another process uses this folder");
    return std::make_unique<Lock>(disk_, path);
  }

 private:
  struct Lock final : FolderLock {
    Lock(MemoryDisk& of, std::string at) : disk(of), path(std::move(at)) {}
    ~Lock() override { disk.locks.erase(path); }
    MemoryDisk& disk;
    std::string path;
  };
  class Open final : public File {
   public:
    Open(MemoryFiles& files, std::shared_ptr<MemoryDisk::Content> content)
        : files_(files), content_(std::move(content)) {}
    Result<void> read(int64_t offset, std::span<std::byte> to) override {
      if (files_.cannot_read) return fail(Code::kIo, "cannot read: input/output error");
      if (offset + std::ssize(to) > std::ssize(content_->bytes)) return fail(Code::kIo, "the file ends before");
      std::memcpy(to.data(), content_->bytes.data() + offset, to.size());
      return {};
    }
    Result<void> write(int64_t offset, std::span<const std::byte> from) override {
      const bool last = files_.calls_left == 1;
      CAIRN_TRY_VOID(files_.change());
      const int64_t grown = offset + std::ssize(from) - std::ssize(content_->bytes);
      const bool full = files_.bytes_left >= 0 && grown > files_.bytes_left;
      if (full) from = from.first(from.size() / 2);
      if (last) from = from.first(from.size() / 2);
      const size_t end = static_cast<size_t>(offset) + from.size();
      if (end > content_->bytes.size()) content_->bytes.resize(end);
      std::memcpy(content_->bytes.data() + offset, from.data(), from.size());
      content_->since.emplace_back(offset, std::vector<std::byte>(from.begin(), from.end()));
      if (full) return fail(Code::kIo, "cannot write: no space left on device");
      if (files_.bytes_left >= 0) files_.bytes_left -= std::max<int64_t>(grown, 0);
      return last ? files_.dead() : Result<void>();
    }
    Result<void> sync() override {
      CAIRN_TRY_VOID(files_.change());
      for (const auto& [offset, bytes] : content_->since) {
        const size_t end = static_cast<size_t>(offset) + bytes.size();
        if (end > content_->synced.size()) content_->synced.resize(end);
        std::memcpy(content_->synced.data() + offset, bytes.data(), bytes.size());
      }
      content_->since.clear();
      return {};
    }
    Result<int64_t> size() override { return std::ssize(content_->bytes); }
    Result<void> resize(int64_t bytes) override {
      if (bytes == std::ssize(content_->bytes)) return {};
      CAIRN_TRY_VOID(files_.change());
      content_->bytes.resize(static_cast<size_t>(bytes));
      content_->synced = content_->bytes;
      content_->since.clear();
      return {};
    }
    bool punch(int64_t offset, int64_t bytes) override {
      if (!files_.can_punch || !files_.change().has_value()) return false;
      const auto begin = content_->bytes.begin() + std::min<int64_t>(offset, std::ssize(content_->bytes));
      const auto end = content_->bytes.begin() + std::min<int64_t>(offset + bytes, std::ssize(content_->bytes));
      std::fill(begin, end, std::byte{0});
      content_->since.emplace_back(begin - content_->bytes.begin(), std::vector<std::byte>(begin, end));
      return true;
    }

   private:
    MemoryFiles& files_;
    std::shared_ptr<MemoryDisk::Content> content_;
  };

  bool alive() const { return calls_left != 0; }
  Result<void> dead() const { return fail(Code::kIo, "the process is dead"); }
  Result<void> change() {
    if (read_only) return fail(Code::kIo, "read-only file system");
    if (!alive()) return dead();
    if (calls_left > 0) --calls_left;
    ++changes;
    return {};
  }

  MemoryDisk& disk_;
};

}  // namespace cairn::cache::disk
