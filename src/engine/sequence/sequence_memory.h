/// A sequence's KV memory: the pages that it has, and what their cache and their disk know it by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "cache/disk/disk_tier.h"
#include "cache/page_pool.h"
#include "cache/prefix_cache.h"
#include "engine/request.h"
#include "engine/slots.h"

namespace cairn::engine {

/// A position at which a sequence's recurrent states are copied for later prompts (checkpoints.h).
struct Checkpoint {
  int32_t tokens = 0;  ///< before it, a multiple of kPageTokens
  uint64_t key = 0;    ///< PrefixCache::key_at it: the same for prompts that have the same tokens before it
};

/// What the disk tier has to do with a sequence.
struct SequenceDisk {
  std::shared_ptr<cache::disk::DiskLoad> load =
      nullptr;              ///< pages on their way; the sequence computes nothing meanwhile
  int32_t load_tokens = 0;  ///< where it goes on once they are there
  int64_t begun_ns = 0;     ///< when the engine first waited for them; 0: not yet
  int64_t progress_ns = 0;  ///< when the last of them came
  bool gave_up = false;     ///< pages did not come: nothing more is loaded
  int32_t saved = 0;        ///< tokens whose pages were handed to the tier
  /// Where a sequence that resumes later is expected to, ascending multiples of kPageTokens (models with windows or
  /// states).
  std::vector<int32_t> boundaries = {};
  size_t next_boundary = 0;  ///< the first of them that was not handed over
};

/// The KV memory of one sequence, which the engine takes away on preemption and gives back later.
struct SequenceMemory {
  cache::PageTable table;
  cache::PrefixCursor cursor;
  int32_t computed = 0;  ///< tokens that the model has computed, which is also the position of the next row
  /// For models with recurrent states: where copies of them are wanted, ascending (KvManager::plan_checkpoints).
  std::vector<Checkpoint> checkpoints = {};
  SequenceDisk disk = {};

  /// The next of them behind `computed`; null if there is none.
  const Checkpoint* next_checkpoint() const {
    const auto next = std::ranges::upper_bound(checkpoints, computed, {}, &Checkpoint::tokens);
    return next == checkpoints.end() ? nullptr : &*next;
  }
};

/// Where pages of a sequence may be kept, and who may find them there: what stays the same over preemptions.
class SequenceCaching {
 public:
  explicit SequenceCaching(const GenerateRequest& request);

  uint64_t salt() const { return salt_; }
  /// A hash of the name of the tenant that it is of.
  uint64_t tenant() const { return tenant_; }
  /// Whether its client lets it be kept on a disk.
  bool may_be_kept() const { return may_be_kept_; }
  /// Its pages are the owner's on disk, if its prompt is long enough and its client lets them be kept.
  void set_disk_owner(uint64_t owner, bool is_long_enough);
  /// Where lookups in the prefix cache begin. Without a disk tier the owner of its pages there does not matter.
  cache::PrefixCursor root() const;

  /// The slot that keeps its conversation, as GenerateRequest::slot.
  int32_t slot() const { return slot_; }
  /// What is done with its pages instead of computing.
  SlotAction slot_action() const { return slot_action_; }

 private:
  uint64_t salt_;
  uint64_t tenant_;
  uint64_t disk_owner_ = 0;
  bool may_be_kept_;
  bool keep_on_disk_;
  int32_t slot_;
  SlotAction slot_action_;
};

}  // namespace cairn::engine
