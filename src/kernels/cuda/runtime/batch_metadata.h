/// The slices of a call of attention, store_kv and the like in the form that kernels read: a place for every row, and
/// one list of pages.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/kv.h"
#include "kernels/workspace_sizes.h"

namespace cairn::kernels::cuda {

/// All layers of a step use the same slices, or alternate between those of a few KV groups: recently used ones are
/// still on the device and are found again.
class BatchMetadata {
 public:
  /// Consecutive rows of a call's operands, from `first` on.
  struct Run {
    Rows rows;
    int64_t first = 0;
  };

  /// Bytes that the first reserve() takes.
  static int64_t bytes(const WorkspaceSizes& sizes);
  /// Maximum bytes of an argument that is sent through the staging ring.
  static int64_t argument_bytes(const WorkspaceSizes& sizes) { return Limits::of(sizes).bytes(); }
  /// Called when no work on the stream uses the memory. Errors: kOutOfMemory.
  Result<void> reserve(Stream& stream, const WorkspaceSizes& sizes) { return reserve(stream, Limits::of(sizes)); }
  /// Reserves for the same slices as `other`, cut into the same runs.
  Result<void> reserve_like(Stream& stream, const BatchMetadata& other) { return reserve(stream, other.limits_); }

  /// Number of rows of a layer (kv_rows) that the slices' rows before row `end` of the batch complete.
  static int64_t completed(std::span<const AttentionSlice> slices, int64_t end, int32_t tokens_per_row);

  /// Forgets the slices that were sent, since each step's slices are at the same addresses as those of the step before.
  void begin_step();
  /// Begins a call.
  void begin(std::span<const AttentionSlice> slices);
  /// Sends the next rows of the call, as many as limits allow, for the next operation of the stream; false at the
  /// call's end.
  bool next(Stream& stream, StagingRing& ring, Run& run);

 private:
  /// Number of KV groups whose slices are remembered: models have one or two, DeepSeek V4 up to five.
  static constexpr size_t kRemembered = 5;
  static constexpr int64_t kPagesMin = int64_t{1} << 16;
  static constexpr int64_t kAlignment = 256;
  /// Limits of a run.
  struct Limits {
    int64_t rows = 0;
    int64_t pages = 0;
    int64_t tokens = 0;  // tokens that a row sees

    static Limits of(const WorkspaceSizes& sizes);
    int64_t place_bytes() const;
    int64_t bytes() const;
  };
  struct Content {
    std::vector<TokenPlace> places;
    std::vector<int32_t> pages;
    int32_t positions_max = 0;
    int32_t slice_rows_max = 0;
    int32_t slices = 0;

    void clear();
    void reserve(const Limits& limits);
    bool operator==(const Content& other) const;
  };
  struct Slot {
    Content content;
    Buffer device;  // places, followed by pages
  };

  Result<void> reserve(Stream& stream, const Limits& wanted);
  /// The run of a call with these slices in the same step, if it was one run.
  const Run* known(std::span<const AttentionSlice> slices) const;
  /// Finds wanted_ among the slots or sends it.
  void find_or_send(Stream& stream, StagingRing& ring, Run& run);
  /// Fills wanted_ with the next rows; returns the first of them.
  int64_t gather();
  Rows rows_in(const Slot& slot) const;

  Limits limits_;
  std::array<Slot, kRemembered> slots_;
  size_t oldest_ = 0;
  Content wanted_;
  std::span<const AttentionSlice> left_;
  std::vector<AttentionSlice> known_slices_;  // of the last call of the step that was one run
  Run known_run_;
  int32_t done_ = 0;  // rows done of the first slice that is left
};

}  // namespace cairn::kernels::cuda
