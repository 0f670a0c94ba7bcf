/// Private to quant: one decoder per type. Each writes out.size() elements, a multiple of the type's block, which it
/// reads from `blocks`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace cairn::quant {

void decode_f32(const std::byte* blocks, std::span<float> out);
void decode_f16(const std::byte* blocks, std::span<float> out);
void decode_bf16(const std::byte* blocks, std::span<float> out);

void decode_q4_0(const std::byte* blocks, std::span<float> out);
void decode_q4_1(const std::byte* blocks, std::span<float> out);
void decode_q5_0(const std::byte* blocks, std::span<float> out);
void decode_q5_1(const std::byte* blocks, std::span<float> out);
void decode_q8_0(const std::byte* blocks, std::span<float> out);

void decode_q2_k(const std::byte* blocks, std::span<float> out);
void decode_q3_k(const std::byte* blocks, std::span<float> out);
void decode_q4_k(const std::byte* blocks, std::span<float> out);
void decode_q5_k(const std::byte* blocks, std::span<float> out);
void decode_q6_k(const std::byte* blocks, std::span<float> out);

void decode_iq1_s(const std::byte* blocks, std::span<float> out);
void decode_iq1_m(const std::byte* blocks, std::span<float> out);
void decode_iq2_xxs(const std::byte* blocks, std::span<float> out);
void decode_iq2_xs(const std::byte* blocks, std::span<float> out);
void decode_iq2_s(const std::byte* blocks, std::span<float> out);
void decode_iq3_xxs(const std::byte* blocks, std::span<float> out);
void decode_iq3_s(const std::byte* blocks, std::span<float> out);
void decode_iq4_nl(const std::byte* blocks, std::span<float> out);
void decode_iq4_xs(const std::byte* blocks, std::span<float> out);

void decode_tq1_0(const std::byte* blocks, std::span<float> out);
void decode_tq2_0(const std::byte* blocks, std::span<float> out);
void decode_mxfp4(const std::byte* blocks, std::span<float> out);
void decode_nvfp4(const std::byte* blocks, std::span<float> out);
void decode_q1_0(const std::byte* blocks, std::span<float> out);
void decode_q2_0(const std::byte* blocks, std::span<float> out);

/// Calls decode(block, out + kElements * i) for each block, copied out of the unaligned bytes.
template <class Block, int kElements, class Decode>
void each_block(const std::byte* blocks, std::span<float> out, Decode decode) {
  float* y = out.data();
  for (size_t i = 0; i < out.size() / kElements; ++i, y += kElements) {
    Block block;
    std::memcpy(&block, blocks + i * sizeof(Block), sizeof(Block));
    decode(block, y);
  }
}

}  // namespace cairn::quant
