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
  std::byte* head;  // the row's first dword; or its half where the head is nothing else
  std::byte* body;  // the row's first dword

  std::byte* dword(int i) const { return body + i * kPanelDword; }
  std::byte* head_dword(int i) const { return head + i * kPanelDword; }
};

Place place_of(const PanelFormat& format, std::byte* panel, int64_t cols, int64_t block, int64_t row) {
  const int64_t element = format.head_bytes == kPanelRows * 2 ? 2 : 4;
  return {panel + block * format.head_bytes + row * element,
          panel + format.body_begin(cols) + block * (format.block_cols / 32) * format.body_bytes() + row * 4};
}

void pack_q8_0(const std::byte* block, const Place& to) {
  std::memcpy(to.head, block, 2);
  for (int k = 0; k < 8; ++k) store(to.dword(k), load(block + 2 + 4 * k) ^ kSigns);
}
void unpack_q8_0(const Place& from, std::byte* block) {
  std::memcpy(block, from.head, 2);
  for (int k = 0; k < 8; ++k) store(block + 2 + 4 * k, load(from.dword(k)) ^ kSigns);
}

void pack_q4_0(const std::byte* block, const Place& to) {
  std::memcpy(to.head, block, 2);
  for (int k = 0; k < 4; ++k) store(to.dword(k), load(block + 2 + 4 * k));
}
void unpack_q4_0(const Place& from, std::byte* block) {
  std::memcpy(block, from.head, 2);
  for (int k = 0; k < 4; ++k) store(block + 2 + 4 * k, load(from.dword(k)));
}

// The file has 64 columns in 32 bytes: the first 32 columns in the low nibbles, the others in the high ones.
void pack_q4_k(const std::byte* block, const Place& to) {
  for (int i = 0; i < 4; ++i) store(to.head_dword(i), load(block + 4 * i));
  for (int pair = 0; pair < 4; ++pair) {
    for (int k = 0; k < 4; ++k) {
      const uint32_t a = load(block + 16 + 32 * pair + 4 * k), b = load(block + 32 + 32 * pair + 4 * k);
      store(to.dword(8 * pair + k), (a & kLow) | (b & kLow) << 4);
      store(to.dword(8 * pair + 4 + k), (a & kHigh) >> 4 | (b & kHigh));
    }
  }
}
void unpack_q4_k(const Place& from, std::byte* block) {
  for (int i = 0; i < 4; ++i) store(block + 4 * i, load(from.head_dword(i)));
  for (int pair = 0; pair < 4; ++pair) {
    for (int k = 0; k < 4; ++k) {
      const uint32_t even = load(from.dword(8 * pair + k)), odd = load(from.dword(8 * pair + 4 + k));
      store(block + 16 + 32 * pair + 4 * k, (even & kLow) | (odd & kLow) << 4);
      store(block + 32 + 32 * pair + 4 * k, (even & kHigh) >> 4 | (odd & kHigh));
    }
  }
}

// Where the file has the bits of group k of 32 columns, number s of 4 in number `part` of 2 (see BlockQ6_K).
constexpr int q6_low(int part, int s, int k) { return 64 * part + 32 * (s % 2) + 4 * k; }
constexpr int q6_high(int part, int k) { return 128 + 32 * part + 4 * k; }

void pack_q6_k(const std::byte* block, const Place& to) {
  for (int i = 0; i < 4; ++i) store(to.head_dword(i), load(block + 192 + 4 * i));
  for (int b = 0; b < 8; ++b) {
    const int part = b / 4, s = b % 4;
    uint32_t low[8], high[2] = {};
    for (int k = 0; k < 8; ++k) {
      low[k] = load(block + q6_low(part, s, k)) >> (s / 2 * 4) & kLow;
      high[k / 4] |= (load(block + q6_high(part, k)) >> (2 * s) & kTwo) << (2 * (k % 4));
    }
    for (int k = 0; k < 4; ++k) store(to.dword(6 * b + k), low[k] | low[k + 4] << 4);
    for (int j = 0; j < 2; ++j) store(to.dword(6 * b + 4 + j), high[j]);
  }
}
void unpack_q6_k(const Place& from, std::byte* block) {
  std::memset(block, 0, 192);
  for (int i = 0; i < 4; ++i) store(block + 192 + 4 * i, load(from.head_dword(i)));
  for (int b = 0; b < 8; ++b) {
    const int part = b / 4, s = b % 4;
    for (int k = 0; k < 8; ++k) {
      const uint32_t low = load(from.dword(6 * b + k % 4)) >> (k / 4 * 4) & kLow;
      const uint32_t high = load(from.dword(6 * b + 4 + k / 4)) >> (2 * (k % 4)) & kTwo;
      std::byte* low_at = block + q6_low(part, s, k);
      std::byte* high_at = block + q6_high(part, k);
      store(low_at, load(low_at) | low << (s / 2 * 4));
      store(high_at, load(high_at) | high << (2 * s));
    }
  }
}

// The half of a Q6_K block comes after the dwords of the head: rows are two bytes apart there, not four.
std::byte* q6_half(const Place& place, int64_t row) { return place.head_dword(4) - 4 * row + 2 * row; }
constexpr int kQ6Half = 208;

void pack_block(TensorType type, const std::byte* block, const Place& to, int64_t row) {
  switch (type) {
    case TensorType::kQ8_0:
      return pack_q8_0(block, to);
    case TensorType::kQ4_0:
      return pack_q4_0(block, to);
    case TensorType::kQ4_K:
      return pack_q4_k(block, to);
    default:
      std::memcpy(q6_half(to, row), block + kQ6Half, 2);
      return pack_q6_k(block, to);
  }
}

}  // namespace

PanelFormat panel_format(TensorType type) {
  switch (type) {
    case TensorType::kQ8_0:
      return kPanelQ8_0;
    case TensorType::kQ4_0:
      return kPanelQ4_0;
    case TensorType::kQ4_K:
      return kPanelQ4_K;
    default:
      CAIRN_CHECK(type == TensorType::kQ6_K);
      return kPanelQ6_K;
  }
}

void pack_panels(TensorType type, const std::byte* from, int64_t rows, int64_t cols, int64_t begin, int64_t end,
                 std::byte* to) {
  const PanelFormat format = panel_format(type);
  const int64_t blocks = cols / format.block_cols;
  const int64_t row_bytes = blocks * format.block_bytes;
  for (int64_t p = begin; p < end; ++p) {
    std::byte* panel = to + p * format.panel_bytes(cols);
    const int64_t count = std::min(kPanelRows, rows - p * kPanelRows);
    if (count < kPanelRows) std::memset(panel, 0, static_cast<size_t>(format.panel_bytes(cols)));
    for (int64_t b = 0; b < blocks; ++b) {
      const std::byte* block = from + p * kPanelRows * row_bytes + b * format.block_bytes;
      for (int64_t r = 0; r < count; ++r) {
        pack_block(type, block + r * row_bytes, place_of(format, panel, cols, b, r), r);
      }
    }
  }
}

void unpack_block(TensorType type, const std::byte* panels, int64_t cols, int64_t row, int64_t block, std::byte* out) {
  const PanelFormat format = panel_format(type);
  // Only read from: Place serves both directions.
  auto* panel = const_cast<std::byte*>(panels) + row / kPanelRows * format.panel_bytes(cols);
  const Place from = place_of(format, panel, cols, block, row % kPanelRows);
  switch (type) {
    case TensorType::kQ8_0:
      return unpack_q8_0(from, out);
    case TensorType::kQ4_0:
      return unpack_q4_0(from, out);
    case TensorType::kQ4_K:
      return unpack_q4_k(from, out);
    default:
      std::memcpy(out + kQ6Half, q6_half(from, row % kPanelRows), 2);
      return unpack_q6_k(from, out);
  }
}

}  // namespace cairn::cpu
