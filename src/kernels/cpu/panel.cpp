#include "kernels/cpu/panel.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace cairn::cpu {
namespace {

constexpr uint32_t kLow = 0x0f0f0f0fu, kHigh = 0xf0f0f0f0u, kTwo = 0x03030303u;
// Of Q8_0's signed bytes.
constexpr uint32_t kSigns = 0x80808080u;

uint32_t load(const std::byte* from) {
  uint32_t dword;
  std::memcpy(&dword, from, sizeof(dword));
  return dword;
}
void store(std::byte* to, uint32_t dword) { std::memcpy(to, &dword, sizeof(dword)); }

// One row of one block of a panel.
struct Place {
  std::byte* half_0;  // of the head; what else is there are dwords, which come first
  std::byte* head_0;
  std::byte* body_0;

  std::byte* head(int i) const { return head_0 + i * kPanelDword; }
  std::byte* body(int i) const { return body_0 + i * kPanelDword; }
};

Place place_of(const PanelFormat& format, std::byte* panel, int64_t cols, int64_t block, int64_t row) {
  std::byte* head = panel + block * format.head_bytes;
  const int64_t body = block * (format.block_cols / 32);
  return {head + format.head_bytes - kPanelHalf + row * 2, head + row * 4,
          panel + format.body_begin(cols) + body * format.body_bytes() + row * 4};
}

void pack_q8_0(const std::byte* block, const Place& to) {
  std::memcpy(to.half_0, block, 2);
  for (int k = 0; k < 8; ++k) store(to.body(k), load(block + 2 + 4 * k) ^ kSigns);
}
void unpack_q8_0(const Place& from, std::byte* block) {
  std::memcpy(block, from.half_0, 2);
  for (int k = 0; k < 8; ++k) store(block + 2 + 4 * k, load(from.body(k)) ^ kSigns);
}

void pack_q4_0(const std::byte* block, const Place& to) {
  std::memcpy(to.half_0, block, 2);
  for (int k = 0; k < 4; ++k) store(to.body(k), load(block + 2 + 4 * k));
}
void unpack_q4_0(const Place& from, std::byte* block) {
  std::memcpy(block, from.half_0, 2);
  for (int k = 0; k < 4; ++k) store(block + 2 + 4 * k, load(from.body(k)));
}

// The file has 64 columns in 32 bytes: the first 32 columns in the low nibbles, the others in the high ones.
void pack_q4_k(const std::byte* block, const Place& to) {
  for (int i = 0; i < 4; ++i) store(to.head(i), load(block + 4 * i));
  for (int pair = 0; pair < 4; ++pair) {
    for (int k = 0; k < 4; ++k) {
      const uint32_t a = load(block + 16 + 32 * pair + 4 * k), b = load(block + 32 + 32 * pair + 4 * k);
      store(to.body(8 * pair + k), (a & kLow) | (b & kLow) << 4);
      store(to.body(8 * pair + 4 + k), (a & kHigh) >> 4 | (b & kHigh));
    }
  }
}
void unpack_q4_k(const Place& from, std::byte* block) {
  for (int i = 0; i < 4; ++i) store(block + 4 * i, load(from.head(i)));
  for (int pair = 0; pair < 4; ++pair) {
    for (int k = 0; k < 4; ++k) {
      const uint32_t even = load(from.body(8 * pair + k)), odd = load(from.body(8 * pair + 4 + k));
      store(block + 16 + 32 * pair + 4 * k, (even & kLow) | (odd & kLow) << 4);
      store(block + 32 + 32 * pair + 4 * k, (even & kHigh) >> 4 | (odd & kHigh));
    }
  }
}

// Where the file has the bits of group k of 32 columns, number s of 4 in number `part` of 2 (see BlockQ6_K).
constexpr int q6_low(int part, int s, int k) { return 64 * part + 32 * (s % 2) + 4 * k; }
constexpr int q6_high(int part, int k) { return 128 + 32 * part + 4 * k; }

void pack_q6_k(const std::byte* block, const Place& to) {
  std::memcpy(to.half_0, block + 208, 2);
  for (int i = 0; i < 4; ++i) store(to.head(i), load(block + 192 + 4 * i));
  for (int b = 0; b < 8; ++b) {
    const int part = b / 4, s = b % 4;
    uint32_t low[8], high[2] = {};
    for (int k = 0; k < 8; ++k) {
      low[k] = load(block + q6_low(part, s, k)) >> (s / 2 * 4) & kLow;
      high[k / 4] |= (load(block + q6_high(part, k)) >> (2 * s) & kTwo) << (2 * (k % 4));
    }
    for (int k = 0; k < 4; ++k) store(to.body(6 * b + k), low[k] | low[k + 4] << 4);
    for (int j = 0; j < 2; ++j) store(to.body(6 * b + 4 + j), high[j]);
  }
}
void unpack_q6_k(const Place& from, std::byte* block) {
  std::memcpy(block + 208, from.half_0, 2);
  std::memset(block, 0, 192);
  for (int i = 0; i < 4; ++i) store(block + 192 + 4 * i, load(from.head(i)));
  for (int b = 0; b < 8; ++b) {
    const int part = b / 4, s = b % 4;
    for (int k = 0; k < 8; ++k) {
      const uint32_t low = load(from.body(6 * b + k % 4)) >> (k / 4 * 4) & kLow;
      const uint32_t high = load(from.body(6 * b + 4 + k / 4)) >> (2 * (k % 4)) & kTwo;
      std::byte* low_at = block + q6_low(part, s, k);
      std::byte* high_at = block + q6_high(part, k);
      store(low_at, load(low_at) | low << (s / 2 * 4));
      store(high_at, load(high_at) | high << (2 * s));
    }
  }
}

struct Packing {
  TensorType type;
  PanelFormat format;
  void (*pack)(const std::byte* block, const Place& to);
  void (*unpack)(const Place& from, std::byte* block);
};

constexpr Packing kPackings[] = {{TensorType::kQ8_0, kPanelQ8_0, pack_q8_0, unpack_q8_0},
                                 {TensorType::kQ4_0, kPanelQ4_0, pack_q4_0, unpack_q4_0},
                                 {TensorType::kQ4_K, kPanelQ4_K, pack_q4_k, unpack_q4_k},
                                 {TensorType::kQ6_K, kPanelQ6_K, pack_q6_k, unpack_q6_k}};

const Packing& packing_of(TensorType type) {
  const auto* found = std::ranges::find(kPackings, type, &Packing::type);
  CAIRN_CHECK(found != std::end(kPackings));
  return *found;
}

}  // namespace

bool has_panels(TensorType type) { return std::ranges::find(kPackings, type, &Packing::type) != std::end(kPackings); }

PanelFormat panel_format(TensorType type) { return packing_of(type).format; }

void pack_panels(TensorType type, const std::byte* from, int64_t rows, int64_t cols, int64_t begin, int64_t end,
                 std::byte* to) {
  const auto& [of_type, format, pack, unpack] = packing_of(type);
  const int64_t blocks = cols / format.block_cols;
  const int64_t row_bytes = blocks * format.block_bytes;
  for (int64_t p = begin; p < end; ++p) {
    std::byte* panel = to + p * format.panel_bytes(cols);
    const int64_t count = std::min(kPanelRows, rows - p * kPanelRows);
    if (count < kPanelRows) std::memset(panel, 0, static_cast<size_t>(format.panel_bytes(cols)));
    for (int64_t b = 0; b < blocks; ++b) {
      const std::byte* block = from + p * kPanelRows * row_bytes + b * format.block_bytes;
      for (int64_t r = 0; r < count; ++r) pack(block + r * row_bytes, place_of(format, panel, cols, b, r));
    }
  }
}

void unpack_block(TensorType type, const std::byte* panels, int64_t cols, int64_t row, int64_t block, std::byte* out) {
  const auto& [of_type, format, pack, unpack] = packing_of(type);
  // Only read from: a place serves both directions.
  auto* panel = const_cast<std::byte*>(panels) + row / kPanelRows * format.panel_bytes(cols);
  unpack(place_of(format, panel, cols, block, row % kPanelRows), out);
}

}  // namespace cairn::cpu
