/// The vocabulary of a folder in Hugging Face's form (tokenizer.json, tokenizer.model), as the keys tokenizer.* that
/// GGUF files have for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "convert/huggingface/family.h"
#include "convert/huggingface/new_metadata.h"

namespace cairn::convert {

/// tokenizer.ggml.token_type
enum class TokenKind : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct NewVocabulary {
  std::string model;  ///< gpt2, llama, bert, t5, gemma4
  std::string pre;    ///< tokenizer.ggml.pre; empty: none
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;
  std::vector<double> scores;       ///< empty: none
  std::vector<std::string> merges;  ///< empty: none
  std::vector<uint8_t> charsmap;    ///< empty: none
  std::optional<bool> space_prefix;
  std::optional<bool> remove_extra_spaces;

  /// Sets a token; ids beyond the table are dropped, since a model without rows for them cannot use them.
  void set(int64_t id, std::string text, TokenKind kind, double score);
};

/// The JSON files that say what a tokenizer does. Those that are not there are empty objects.
struct TokenizerFiles {
  std::filesystem::path folder;
  nlohmann::json tokenizer;         ///< tokenizer.json
  nlohmann::json tokenizer_config;  ///< tokenizer_config.json
  nlohmann::json added_tokens;      ///< added_tokens.json
  nlohmann::json generation;        ///< generation_config.json

  static Result<TokenizerFiles> read(const std::filesystem::path& folder);
};

/// Reads the vocabulary with `size` tokens, the rows of the table of tokens. `pre_tokenizer`: a name that the user
/// gives (empty: it is found out). Errors: kNotFound (no tokenizer), kCorruptFile, kUnsupported (a kind of tokenizer or
/// of pre-tokenizer that is not known; what it says is shown).
Result<NewVocabulary> read_vocabulary(const TokenizerFiles& files, const Family& family, int64_t size,
                                      std::string_view pre_tokenizer);
/// The same from the model file of SentencePiece, a protocol buffer.
Result<NewVocabulary> read_sentencepiece(std::span<const std::byte> file, int64_t size);

/// The name of the pre-tokenizer of tokenizer.json. Error: kUnsupported.
Result<std::string> pre_tokenizer_name(const nlohmann::json& tokenizer, std::string_view preferred);

/// Sets the keys of the vocabulary, of its special tokens, of the chat templates and of what generation_config.json
/// recommends.
Result<void> set_vocabulary_keys(const NewVocabulary& vocabulary, const TokenizerFiles& files, const Family& family,
                                 const ModelConfig& config, NewMetadata& metadata);

}  // namespace cairn::convert
