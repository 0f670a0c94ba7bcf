/// Pages of keys and values on their way from memory to the tensor cores: a ring of slots in shared memory with rows of
/// 16-bit numbers in the layout of mma_page.cuh, filled by a whole block while earlier slots are used.
///
/// Pages of 16-bit numbers are copied to their slots at once. Others arrive as they are stored and are decoded one page
/// before they are used. A page costs one barrier, or two with a ring of one slot.
#pragma once

#include "kernels/cuda/attention/call.cuh"
#include "kernels/cuda/attention/mma_page.cuh"
#include "kernels/cuda/attention/tile.cuh"
#include "kernels/cuda/matmul/f16x2.cuh"
#include "kernels/cuda/runtime/async_copy.cuh"

namespace cairn::kernels::cuda {

/// Whether rows are multiplied as they are stored.
CAIRN_HOST_DEVICE constexpr bool stored_in_halves(KvType type) { return type == KvType::kF16 || type == KvType::kBF16; }

/// Offsets from the ring's begin, multiples of 16 bytes.
struct PageRingLayout {
  int32_t values = 0;  ///< of a slot's values; its keys are at 0
  int32_t slot_bytes = 0;
  int32_t raw = 0;         ///< pages as they are stored
  int32_t raw_values = 0;  ///< of such a page's values
  int32_t raw_bytes = 0;   ///< of such a page
  int32_t bytes = 0;
};
CAIRN_HOST_DEVICE constexpr PageRingLayout lay_out_ring(bool as_stored, int32_t key_dim, int32_t value_dim,
                                                        int64_t key_row_bytes, int64_t value_row_bytes, int32_t slots) {
  constexpr int32_t kHalf = sizeof(uint16_t);
  PageRingLayout layout;
  layout.values = kPageTokens * half_stride(key_dim) * kHalf;
  layout.slot_bytes = layout.values + kPageTokens * half_stride(value_dim) * kHalf;
  layout.raw = slots * layout.slot_bytes;
  if (!as_stored) {
    layout.raw_values = kPageTokens * static_cast<int32_t>(key_row_bytes);
    // Codes are read in whole words, the last of which may end behind the page.
    layout.raw_bytes = layout.raw_values + kPageTokens * static_cast<int32_t>(value_row_bytes) + 16;
  }
  layout.bytes = layout.raw + slots * layout.raw_bytes;
  return layout;
}

/// Decodes a page of rows of kDim numbers in kQ8_0, at multiples of 4 bytes, to the same bits as decode_page_halves().
/// Called by a block of kThreads threads.
template <int kDim, int kThreads>
__device__ __forceinline__ void decode_codes(const std::byte* page, int32_t count, uint16_t* tile) {
  constexpr int kEights = kDim / 8;  // groups of eight codes of a row
  constexpr int kBlockBytes = static_cast<int>(kKvBlockBytes), kRowBytes = kDim / kKvBlock * kBlockBytes;
  static_assert(kDim % kKvBlock == 0 && kRowBytes % 4 == 0);
#pragma unroll
  for (int item = 0; item < kPageTokens * kEights / kThreads; ++item) {
    const int32_t i = item * kThreads + static_cast<int32_t>(threadIdx.x);
    const int32_t row = i / kEights, eight = i % kEights;
    const int32_t block = row * kRowBytes + eight / 4 * kBlockBytes;
    const int32_t codes = block + 2 + eight % 4 * 8;
    const auto* words = reinterpret_cast<const uint32_t*>(page + codes / 4 * 4);
    const uint32_t shift = codes % 4 * 8;
    const uint32_t scale = *reinterpret_cast<const uint16_t*>(page + block);
    const uint32_t fours[2] = {__funnelshift_rc(words[0], words[1], shift),
                               __funnelshift_rc(words[1], words[2], shift)};
    uint32_t halves[4];
    constexpr uint32_t kLargestScale = 0x5fff;  // below 512, so that no product is infinite
    if ((scale & 0x7fffu) <= kLargestScale) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        // The halves 1024 + 128 + code, with 8 bits of the code in the lowest ones.
        const uint32_t biased = fours[k / 2] ^ 0x80808080u;
        const uint32_t numbers = __byte_perm(biased, 0x64646464u, k % 2 == 0 ? 0x4140 : 0x4342);
        halves[k] = multiply_two(subtract_two(numbers, 0x64806480u), scale | scale << 16);
      }
    } else {
      const float factor = __half2float(__ushort_as_half(static_cast<uint16_t>(scale)));
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const uint32_t two = fours[k / 2] >> (k % 2 * 16);
        const auto number = [&](uint32_t code) {
          return within_halves(__fmul_rn(static_cast<float>(static_cast<int8_t>(code & 0xffu)), factor));
        };
        halves[k] = pack_halves<false>(number(two), number(two >> 8));
      }
    }
    const bool there = row < count;
    *reinterpret_cast<uint4*>(tile + row * half_stride(kDim) + 8 * eight) =
        there ? uint4{halves[0], halves[1], halves[2], halves[3]} : uint4{};
  }
}

/// Copies a page's rows of `dim` 16-bit numbers, a multiple of 8, to the layout of mma_page.cuh; rows from `count` on
/// are zeros. Called by a block of kThreads threads.
template <int kThreads>
__device__ void copy_rows_there(const std::byte* from, int32_t dim, int32_t count, uint16_t* tile) {
  const int32_t pieces = dim / 8;  // of 16 bytes of a row
#pragma unroll 1
  for (auto i = static_cast<int32_t>(threadIdx.x); i < kPageTokens * pieces; i += kThreads) {
    const int32_t row = i / pieces;
    uint16_t* to = tile + row * half_stride(dim) + (i - row * pieces) * 8;
    if (row < count) {
      __pipeline_memcpy_async(to, from + 16 * i, 16);
    } else {
      *reinterpret_cast<uint4*>(to) = uint4{};
    }
  }
}
/// Copies all rows of a page as copy_rows_there() does, for a constant dimension.
template <int kDim, int kThreads>
__device__ __forceinline__ void copy_page(const std::byte* from, uint16_t* tile) {
  constexpr int kPieces = kDim / 8;
  static_assert(kThreads % kPieces == 0);
  const uint32_t thread = threadIdx.x;
  from += 16 * thread;
  tile += thread / kPieces * half_stride(kDim) + thread % kPieces * 8;
#pragma unroll
  for (int row = 0; row < kPageTokens; row += kThreads / kPieces) {
    __pipeline_memcpy_async(tile + row * half_stride(kDim), from + row * kDim * 2, 16);
  }
}

/// The pages of a tile. With kDim != 0 that is the number of elements of keys and of values, and the ring has kSlots
/// slots; otherwise it has call.tiling.slots, one or two. begin() and next() are called by all kThreads threads of the
/// block.
template <KvType kType, int kDim, int kSlots, int kThreads>
class PageRing {
 public:
  __device__ PageRing(const AttentionCall& call, const Tile& tile, int32_t seen_end, std::byte* memory)
      : call_(call),
        tile_(tile),
        layout_(lay_out_ring(kCopied, key_dim(), value_dim(), key_row_bytes(), value_row_bytes(), slots())),
        seen_end_(seen_end),
        memory_(memory),
        keys_(call.pages.keys(0, tile.kv_head)),
        values_apart_(call.pages.values(0, tile.kv_head) - keys_) {
    if constexpr (kCopied && kDim == 0) {
      clear_padding(key_dim(), 0);
      clear_padding(value_dim(), layout_.values);
    }
  }

  /// Requests the first of pages [begin, end).
  __device__ void begin(int32_t begin, int32_t end) {
    __syncthreads();  // pages of an earlier call are finished
    requested_ = begin;
    end_ = end;
    id_ = tile_.pages[begin];
    to_ = 0;
    slot_ = slots() - 1;
    if constexpr (kCopied) {
      for (int32_t i = 1; i < slots(); ++i) request();
    } else {
      request();
      if (slots() == 1) return;
      request();
      wait_for_copies<1>();
      __syncthreads();
      decode(begin, 0);
    }
  }
  /// Makes the next page that of keys() and values(), and requests one more. The page before is finished.
  __device__ __forceinline__ void next(int32_t page) {
    slot_ = after(slot_);
    if constexpr (kCopied) {
      if (slots() == 1) {
        __syncthreads();
        request();
      }
      wait_for_copies<kSlots == 0 ? 0 : kSlots - 2>();
      __syncthreads();
      if (slots() > 1) request();
    } else {
      wait_for_copies<0>();
      __syncthreads();
      if (slots() == 1) {
        decode(page, 0);
        __syncthreads();
        request();
      } else {
        request();
        decode(page + 1, after(slot_));
      }
    }
  }
  __device__ const uint16_t* keys() const { return keys_of(slot_); }
  __device__ const uint16_t* values() const { return values_of(slot_); }

 private:
  static constexpr bool kCopied = stored_in_halves(kType);
  static constexpr int64_t kRowBytes = kv_row_bytes(kType, kDim);
  static_assert(kDim == 0 || (kCopied ? kSlots >= 2 : kSlots == 2));

  __device__ int32_t key_dim() const { return kDim != 0 ? kDim : call_.key_dim; }
  __device__ int32_t value_dim() const { return kDim != 0 ? kDim : call_.value_dim; }
  __device__ int64_t key_row_bytes() const { return kDim != 0 ? kRowBytes : call_.pages.key_row_bytes; }
  __device__ int64_t value_row_bytes() const { return kDim != 0 ? kRowBytes : call_.pages.value_row_bytes; }
  __device__ int32_t slots() const { return kDim != 0 ? kSlots : call_.tiling.slots; }
  __device__ int32_t after(int32_t slot) const { return slot + 1 == slots() ? 0 : slot + 1; }
  __device__ uint16_t* keys_of(int32_t slot) const {
    return reinterpret_cast<uint16_t*>(memory_ + slot * layout_.slot_bytes);
  }
  __device__ uint16_t* values_of(int32_t slot) const {
    return reinterpret_cast<uint16_t*>(memory_ + slot * layout_.slot_bytes + layout_.values);
  }
  __device__ std::byte* raw(int32_t slot) const { return memory_ + layout_.raw + slot * layout_.raw_bytes; }
  // Rows of a page that have been written. Others may hold anything, and 0 times infinity is not 0.
  __device__ int32_t rows_there(int32_t page) const { return min(seen_end_ - page * kPageTokens, kPageTokens); }

  // Rows of copied pages have zeros between their last number and the next multiple of 16.
  __device__ void clear_padding(int32_t dim, int32_t offset) const {
    if (half_columns(dim) == dim || dim % 8 != 0) return;
    for (auto i = static_cast<int32_t>(threadIdx.x); i < slots() * kPageTokens; i += kThreads) {
      uint16_t* row = keys_of(i / kPageTokens) + offset / 2 + i % kPageTokens * half_stride(dim);
      *reinterpret_cast<uint4*>(row + dim) = uint4{};
    }
  }

  // Requests the next page, if there is one, as a group of copies.
  __device__ __forceinline__ void request() {
    if (requested_ < end_) {
      const std::byte* keys = keys_ + id_ * call_.pages.page_stride;
      const std::byte* values = keys + values_apart_;
      const int32_t there = rows_there(requested_);
      ++requested_;
      if (requested_ < end_) id_ = tile_.pages[requested_];
      if constexpr (kCopied) {
        copy(keys, key_dim(), there, keys_of(to_));
        copy(values, value_dim(), there, values_of(to_));
      } else {
        copy_async<kThreads>(keys, kPageTokens * key_row_bytes(), raw(to_));
        copy_async<kThreads>(values, kPageTokens * value_row_bytes(), raw(to_) + layout_.raw_values);
      }
      to_ = after(to_);
    }
    end_copies();
  }
  __device__ __forceinline__ void copy(const std::byte* from, int32_t dim, int32_t count, uint16_t* to) const {
    if constexpr (kDim != 0) {
      if (count >= kPageTokens) return copy_page<kDim, kThreads>(from, to);
    }
    if (kDim != 0 || dim % 8 == 0) return copy_rows_there<kThreads>(from, dim, count, to);
    const auto row_at = [=](int32_t row) { return from + row * 2 * dim; };
    decode_page_halves<kType, kThreads / kWarp>(row_at, count, dim, to);
  }
  // Decodes a page, if there is one, to its slot.
  __device__ __forceinline__ void decode(int32_t page, int32_t slot) const {
    if (page >= end_) return;
    const std::byte *keys = raw(slot), *values = keys + layout_.raw_values;
    const int32_t there = rows_there(page);
    if constexpr (kDim != 0) {
      decode_codes<kDim, kThreads>(keys, there, keys_of(slot));
      decode_codes<kDim, kThreads>(values, there, values_of(slot));
    } else {
      const auto decode_rows = [&](const std::byte* rows, int64_t row_bytes, int32_t dim, uint16_t* to) {
        const auto row_at = [=](int32_t row) { return rows + row * row_bytes; };
        decode_page_halves<kType, kThreads / kWarp>(row_at, there, dim, to);
      };
      decode_rows(keys, key_row_bytes(), call_.key_dim, keys_of(slot));
      decode_rows(values, value_row_bytes(), call_.value_dim, values_of(slot));
    }
  }

  const AttentionCall& call_;
  const Tile& tile_;
  const PageRingLayout layout_;
  const int32_t seen_end_;
  std::byte* const memory_;
  const std::byte* const keys_;  // of page 0
  const int64_t values_apart_;
  int32_t requested_ = 0;  // the page that is requested next,
  int32_t id_ = 0;         // its id
  int32_t to_ = 0;         // and its slot
  int32_t end_ = 0;
  int32_t slot_ = 0;  // of keys() and values()
};

}  // namespace cairn::kernels::cuda
