/// Byte-pair encoding: "gpt2" (bytes written as characters, words from a pre-tokenizer) and "gemma4" (characters,
/// lines, "▁" for a space, bytes for what is not in the vocabulary).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/models/merge.h"
#include "tokenizer/string_pool.h"
#include "tokenizer/text/pre_tokenizer.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace cairn::tokenizer {

/// Maps (left, right) to their merge. Ids of symbols: first tokens, then texts that occur only in merges.
class MergeTable {
 public:
  void reserve(size_t merges);
  /// The first of several merges of the same pair counts.
  void add(uint32_t left, uint32_t right, Merge merge);
  Merge find(uint32_t left, uint32_t right) const;

 private:
  struct Slot {
    uint32_t left = 0;
    uint32_t right = 0;
    Merge merge;  // kNoMerge: the slot is free
  };
  size_t slot_of(uint32_t left, uint32_t right) const;

  std::vector<Slot> slots_ = std::vector<Slot>(2);  // open addressing; the size is a power of two, at most half full
  size_t used_ = 0;
};

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  enum class Alphabet { kBytes, kCharacters };
  struct Config {
    Alphabet alphabet = Alphabet::kBytes;
    bool ignore_merges = false;
    bool nfc = false;  ///< whether texts are first converted to Unicode's normal form C
  };
  /// `merges`: "left right", best first. Errors: kCorruptFile (a merge that is not two texts).
  static Result<std::unique_ptr<Tokenizer>> make(Vocabulary vocabulary, SpecialTokens special, PreTokenizer words,
                                                 std::span<const std::string_view> merges, Config config);
  size_t text_bytes_per_token() const override;

 private:
  BpeTokenizer(Vocabulary vocabulary, SpecialTokens special, PreTokenizer words, Config config);
  Result<void> encode_text(std::string_view text, bool after_special, std::vector<TokenId>& out) const override;

  Result<void> add_merges(std::span<const std::string_view> merges);
  void find_byte_symbols();
  // The symbol of a text that is a token or part of a merge; added if there is none.
  uint32_t intern_symbol(std::string_view text);
  uint32_t find_symbol(std::string_view text) const;
  // The token of a whole word, without merging; kNoToken if there is none.
  TokenId whole_word(std::string_view word, std::string& scratch) const;
  void encode_word(std::string_view word, MergeScratch& scratch, std::vector<TokenId>& out) const;
  void append_bytes(std::string_view bytes, std::vector<TokenId>& out) const;

  PreTokenizer words_;
  Config config_;
  StringPool other_symbols_;  // texts of symbols that are not tokens: symbol id = size() + index
  MergeTable merges_;
  std::array<uint32_t, 256> byte_symbol_{};  // kBytes: symbol of each byte. kCharacters: of each ASCII character
  bool loses_bytes_ = false;                 // whether some bytes have no token
  std::array<TokenId, 256> byte_token_{};    // for bytes of symbols that are not tokens; kNoToken: such bytes are lost
};

}  // namespace cairn::tokenizer
