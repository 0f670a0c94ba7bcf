/// The slices of a call of attention, store_kv and their like as kernels read them: a place for every row and one list
/// of pages.
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

namespace cairn::cuda {

/// All layers of a step ask for the same slices, or for those of a few KV groups in turn: what was asked for last is
/// still on the device and found there again.
class BatchMetadata {
 public:
  /// Rows that follow each other in a call's operands, from `first` on.
  struct Run {
    Rows rows;
    int64_t first = 0;
  };

  /// Bytes that the first reserve() takes.
  static int64_t bytes(const WorkspaceSizes& sizes);
  /// What an argument that is sent through the ring may take.
  static int64_t argument_bytes(const WorkspaceSizes& sizes) { return Limits::of(sizes).bytes(); }
  /// Nothing on the stream uses any. Errors: kOutOfMemory.
  Result<void> reserve(Stream& stream, const WorkspaceSizes& sizes) { return reserve(stream, Limits::of(sizes)); }
  /// For the same slices as `other`, cut to runs in the same places.
  Result<void> reserve_like(Stream& stream, const BatchMetadata& other) { return reserve(stream, other.limits_); }

  /// Rows of a layer (kv_rows) that the slices' rows before row `end` of the batch complete.
  static int64_t completed(std::span<const AttentionSlice> slices, int64_t end, int32_t tokens_per_row);

  /// What was sent is forgotten: each step's slices lie where those of the step before did.
  void begin_step();
  /// Begins a call.
  void begin(std::span<const AttentionSlice> slices);
  /// The next rows of the call, as many as limits allow, for the next operation of the stream; false at the call's end.
  bool next(Stream& stream, StagingRing& ring, Run& run);

 private:
  /// KV groups that models have: one or two, of DeepSeek V4 up to five.
  static constexpr size_t kRemembered = 5;
  static constexpr int64_t kPagesMin = int64_t{1} << 16;
  static constexpr int64_t kAlignment = 256;
  /// Of a run.
  struct Limits {
    int64_t rows = 0;
    int64_t pages = 0;
    int64_t tokens = 0;  // that a row sees

    static Limits of(const WorkspaceSizes& sizes);
    int64_t place_bytes() const;
    int64_t bytes() const;
  };
  struct Content {
    std::vector<TokenPlace> places;
    std::vector<int32_t> pages;
    int32_t positions_max = 0;

    void clear();
    void reserve(const Limits& limits);
    bool operator==(const Content& other) const;
  };
  struct Slot {
    Content content;
    Buffer device;  // places, then pages
  };

  Result<void> reserve(Stream& stream, const Limits& wanted);
  /// Fills wanted_ with the next rows; their first one.
  int64_t gather();
  Rows rows_in(const Slot& slot) const;

  Limits limits_;
  std::array<Slot, kRemembered> slots_;
  size_t oldest_ = 0;
  Content wanted_;
  std::span<const AttentionSlice> left_;
  int32_t done_ = 0;  // rows of the first slice left
};

}  // namespace cairn::cuda
