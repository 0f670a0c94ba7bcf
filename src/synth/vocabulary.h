/// A synthetic byte-level BPE vocabulary of any size, so that a synthetic model can be served: every text can be
/// encoded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/writer.h"

namespace cairn::synth {

/// The number of all pairs of pairs of letters, and what precedes them.
inline constexpr int64_t kVocabularyMax = 450'000;

struct Vocabulary {
  std::vector<std::string> tokens;  ///< bytes, then merges of letters, then control tokens
  std::vector<int32_t> types;       ///< as TokenType
  std::vector<std::string> merges;
  std::string pre;
  std::string chat_template;  ///< empty: Cairn's built-in template of the architecture
  int64_t bos = 0;
  int64_t eos = 0;
};

/// Errors: kInvalidArgument for a size that is too small for the bytes and control tokens, or above kVocabularyMax.
Result<Vocabulary> make_vocabulary(std::string_view architecture, int64_t size);

/// Sets the tokenizer.* keys.
void write_vocabulary(const Vocabulary& vocabulary, gguf::Writer& writer);

}  // namespace cairn::synth
