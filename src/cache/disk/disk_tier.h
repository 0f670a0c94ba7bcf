/// The third tier of the KV cache, which outlives the process: pages of one model in a folder (docs/kv-disk.md).
///
/// Every page of the prefix cache's tree has a digest, chained from that of the page before it and begun from the
/// salt's, so that the same tokens of the same tenant find their pages again, and nobody else does. Pages of windows
/// and state slots are found by the digest of their node as well.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "cache/disk/disk_worker.h"
#include "cache/kv_layout.h"

namespace cairn::cache::disk {

/// What the disk has of a prompt.
struct DiskMatch {
  int32_t tokens = 0;  ///< a sequence can resume after so many
  /// Number of first tokens that have pages of all groups that every position needs; more than `tokens` where a window
  /// or a state is missing.
  int32_t tokens_with_pages = 0;
  std::vector<WantedPage> pages{};  ///< that it needs, from the beginning on
  int64_t bytes = 0;                ///< of them
};

/// What is worth a disk.
struct DiskPolicy {
  int32_t prompt_min = 256;  ///< prompts of fewer tokens are not written
  int32_t gain_min = 64;     ///< fewer tokens are not read: computing them takes no longer
};

/// How long a conversation that is to be named waits for the disk.
inline constexpr std::chrono::seconds kNamedPatience{30};

/// Thread: the engine's, unless said otherwise. Waits for no disk, unless said otherwise.
class DiskTier {
 public:
  /// `identity` holds everything that decides about the bytes of a page besides its tokens; `about` is JSON for people.
  /// Waits for the disk. Errors: those of PageStore::use_space.
  static Result<std::unique_ptr<DiskTier>> create(std::shared_ptr<DiskWorker> worker, const KvLayout& layout,
                                                  std::string_view identity, std::string_view about,
                                                  DiskPolicy policy = {});
  const DiskPolicy& policy() const { return policy_; }
  /// Bytes of memory that the queues of a folder may take.
  static constexpr int64_t memory_bytes() { return kWriteQueueBytes + kStagingBytes; }

  DiskWorker& worker() { return *worker_; }
  const DiskWorker& worker() const { return *worker_; }

  /// The digest before the first token, of the prefix cache's root of a salt.
  PageDigest root(uint64_t key) const;
  /// The digest after a page of tokens.
  static PageDigest next(const PageDigest& before, std::span<const TokenId> tokens);
  /// How pages tell whose they are, of a hash of the tenant's name.
  static uint64_t owner(const PageStore& store, uint64_t tenant);

  bool has(const PageAddress& page) const { return worker_->store().has(space_, page); }
  bool wants(const PageAddress& page) { return worker_->wants(space_, page, bytes_of(page.group)); }
  bool has_room(int32_t group) { return worker_->has_room(bytes_of(group)); }
  void put(const PageAddress& page, const PageOrigin& origin, std::vector<std::byte> bytes) {
    worker_->put(space_, page, origin, std::move(bytes));
  }
  void touch(std::vector<PageDigest> pages) { worker_->touch(space_, std::move(pages)); }

  /// What is there of `tokens` up to `tokens_max`, from `begin`, a page boundary with the digest `at`. Of windows a
  /// sequence has what a row at `begin` reads. From any thread.
  DiskMatch match(PageDigest at, int32_t begin, std::span<const TokenId> tokens, int32_t tokens_max) const;
  std::shared_ptr<DiskLoad> load(DiskMatch&& match);

  // -- Conversations that clients name. From any thread; they wait for the disk.
  /// Waits for what is in the queue, at most kNamedPatience, and keeps the tokens of a conversation under a name of its
  /// tenant's. Errors: kIo, kTooLarge (kNamedMax).
  Result<void> keep_tokens(uint64_t tenant, std::string_view name, uint64_t salt, std::span<const TokenId> tokens);
  /// The tokens and their salt. Errors: kNotFound, kCorruptFile, kIo.
  Result<std::pair<uint64_t, std::vector<TokenId>>> kept_tokens(uint64_t tenant, std::string_view name) const;

  int64_t bytes_of(int32_t group) const { return page_bytes_[static_cast<size_t>(group)]; }
  /// Bytes a second at which pages are read; before any was, an assumption.
  double read_rate() const;

 private:
  DiskTier(std::shared_ptr<DiskWorker> worker, const KvLayout& layout, DiskPolicy policy);
  KvKind kind(int32_t group) const { return layout_.groups[static_cast<size_t>(group)].kind; }
  int32_t groups() const { return static_cast<int32_t>(page_bytes_.size()); }
  bool has_all_of(KvKind kind, const PageDigest& page) const;
  bool can_resume(const PageDigest& page, int32_t page_begin, int32_t boundary,
                  std::span<const int32_t> window_from) const;
  void want(const PageDigest& page, int32_t begin, int32_t boundary, DiskMatch& match) const;

  std::shared_ptr<DiskWorker> worker_;
  const KvLayout layout_;
  const DiskPolicy policy_;
  std::vector<int64_t> page_bytes_;
  int32_t space_ = -1;
};

}  // namespace cairn::cache::disk
