#include "tokenizer/models/charsmap.h"

#include <algorithm>
#include <cstring>

namespace cairn::tokenizer {
namespace {

// A unit of the trie: the label in bits 0-7, with bit 31 set in units that hold a value instead; bit 8: a value hangs
// here; bits 10-30: the offset to the children, in units of 256 if bit 9 is set.
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit >> 9 & 1) * 8); }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }
bool has_value(uint32_t unit) { return unit >> 8 & 1; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }

}  // namespace

Result<Charsmap> Charsmap::parse(std::span<const std::byte> bytes) {
  constexpr const char* kKey = "tokenizer.ggml.precompiled_charsmap";
  uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof trie_bytes) {
    return fail_at(kKey, Code::kCorruptFile, "{} bytes are too few for a character map", bytes.size());
  }
  std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  bytes = bytes.subspan(sizeof trie_bytes);
  if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes > bytes.size()) {
    return fail_at(kKey, Code::kCorruptFile, "a trie of {} bytes does not fit in the {} bytes there are", trie_bytes,
                   bytes.size());
  }
  Charsmap out;
  out.units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(out.units_.data(), bytes.data(), trie_bytes);
  bytes = bytes.subspan(trie_bytes);
  out.replacements_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return out;
}

Charsmap::Match Charsmap::longest(std::string_view text) const {
  Match best;
  if (units_.empty()) return best;
  uint32_t node = offset_of(units_[0]);
  text = text.substr(0, kPrefixBytesMax);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const bool ends_here = has_value(units_[node]);
    node ^= offset_of(units_[node]);
    if (node >= units_.size()) break;
    if (!ends_here) continue;
    const size_t begin = value_of(units_[node]);
    if (begin >= replacements_.size()) continue;
    const std::string_view rest = std::string_view(replacements_).substr(begin, kReplacementBytesMax + 1);
    const size_t length = rest.find('\0');
    if (length != std::string_view::npos) best = {i + 1, rest.substr(0, length)};
  }
  return best;
}

}  // namespace cairn::tokenizer
