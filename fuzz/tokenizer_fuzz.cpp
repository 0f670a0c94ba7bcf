// Fuzzes a small vocabulary of each kind with texts: encoding never crashes, ids are in range, streaming agrees with
// decoding, and byte-level ids of a UTF-8 text give the text back, in normal form C if the tokenizer uses it. The same
// bytes also serve as a character map.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text/utf8.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/models/charsmap.h"
#include "tokenizer/test_support.h"
#include "tokenizer/text/normal_form.h"
#include "tokenizer/tokenizer.h"

namespace cairn {
namespace {

std::unique_ptr<tokenizer::Tokenizer> made(const tokenizer::test::MetadataBuilder& builder) {
  auto loaded = builder.load();
  CAIRN_CHECK(loaded.has_value());
  return std::move(*loaded);
}

// A character map of 256 units, in which most labels have a target, with and without terminated replacements.
std::string charsmap_bytes() {
  std::string out("\x00\x04\x00\x00", 4);
  for (uint32_t i = 0; i < 256; ++i) {
    const uint32_t unit = i == 0 ? 0 : (i * 37 % 270) << 10 | (i % 3 == 0 ? 0x100 : 0) | i;
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(unit >> shift);
  }
  return out.append("x").append(1, '\0').append("\xE2\x82").append(1, '\0').append(" unterminated");
}

struct Kind {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  bool round_trips = false;
  bool composes = false;  ///< whether ids are those of the text in normal form C
};

std::array<Kind, 9> make_kinds() {
  auto byte_level = [](std::string_view pre) {
    return tokenizer::test::byte_level_vocabulary({"a b", "ab c", "\u0120 a", "\u0120a b", "a a", "aa aa"},
                                                  {"<|im_end|>", "<|x|>"}, pre);
  };
  auto spm = tokenizer::test::sentencepiece_vocabulary("llama", {"\u2581", "a", "b", "ab", "\u2581a", "aa", "\u00e9"});
  auto unigram =
      tokenizer::test::sentencepiece_vocabulary("t5", {"\u2581", "a", "b", "ab", "\u2581a", "aa", "\u00e9", "x"});
  auto mapped = unigram;
  mapped.set_bytes("tokenizer.ggml.precompiled_charsmap", charsmap_bytes());
  mapped.set_boolean("tokenizer.ggml.add_space_prefix", true);
  mapped.set_boolean("tokenizer.ggml.remove_extra_whitespaces", true);
  return {
      {{made(byte_level("qwen2")), true, true},
       {made(byte_level("llama-bpe")), true},
       {made(byte_level("deepseek-llm")), true},
       {made(byte_level("superbpe")), true},
       {made(tokenizer::test::gemma4_vocabulary({"a", "b", "\u2581", "\n"}, {"a b", "\u2581 a", "\n \n"})), false},
       {made(spm), false},
       {made(unigram), false},
       {made(mapped), false},
       {made(tokenizer::test::wordpiece_vocabulary({"\u2581a", "\u2581b", "a", "b", "\u2581.", "\u2581\u65e5", "e"})),
        false}}};
}

void check(const Kind& kind, std::string_view text) {
  const tokenizer::Tokenizer& tokenizer = *kind.tokenizer;
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.encode(text, {.add_special = parse_special, .parse_special = parse_special});
    if (!ids) {
      CAIRN_CHECK(!utf8_valid(text));
      continue;
    }
    tokenizer::Detokenizer detokenizer(tokenizer, true, true);
    std::string streamed, pieces;
    for (const TokenId id : *ids) {
      CAIRN_CHECK(index(id) >= 0 && index(id) < tokenizer.size());
      pieces += tokenizer.piece(id, true);
      const std::string part = detokenizer.push(id);
      CAIRN_CHECK(utf8_valid(part));
      streamed += part;
    }
    streamed += detokenizer.flush();
    CAIRN_CHECK(streamed == utf8_replace_invalid(tokenizer.decode(*ids, true)));
    std::string scratch;
    if (kind.round_trips && utf8_valid(text))
      CAIRN_CHECK(pieces == (kind.composes ? tokenizer::nfc(text, scratch) : text));
  }
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::array<cairn::Kind, 9> kinds = cairn::make_kinds();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const cairn::Kind& kind : kinds) cairn::check(kind, text);
  if (const auto charsmap = cairn::tokenizer::Charsmap::parse(std::as_bytes(std::span(data, size)))) {
    for (size_t begin = 0; begin < size && begin < 256; ++begin) {
      const auto match = charsmap->longest(text.substr(begin));
      CAIRN_CHECK(match.length <= size - begin &&
                  match.replacement.size() <= cairn::tokenizer::Charsmap::kReplacementBytesMax);
    }
  }
  return 0;
}
