/// For tests and benchmarks of the tokenizer: vocabularies of the reference data, and small ones built in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"
#include "tokenizer/models/byte_level.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace cairn::tokenizer::test {

/// Metadata that owns its values. They may be replaced or removed until metadata() is called.
class MetadataBuilder {
 public:
  MetadataBuilder& set(std::string_view key, std::string_view text) {
    return put(key, {gguf::ValueType::kString, keep(text)});
  }
  MetadataBuilder& set_integer(std::string_view key, int64_t value) { return put(key, {gguf::ValueType::kI64, value}); }
  MetadataBuilder& set_boolean(std::string_view key, bool value) { return put(key, {gguf::ValueType::kBool, value}); }
  MetadataBuilder& set_strings(std::string_view key, const std::vector<std::string>& texts) {
    gguf::Array array{
        .type = gguf::ValueType::kString, .size = texts.size(), .numbers = {}, .strings = {}, .arrays = {}};
    for (const std::string& text : texts) array.strings.push_back(keep(text));
    return put(key, {gguf::ValueType::kArray, std::move(array)});
  }
  MetadataBuilder& set_integers(std::string_view key, const std::vector<int32_t>& values) {
    return set_numbers(key, gguf::ValueType::kI32, values.data(), values.size(), sizeof(int32_t));
  }
  MetadataBuilder& set_floats(std::string_view key, const std::vector<float>& values) {
    return set_numbers(key, gguf::ValueType::kF32, values.data(), values.size(), sizeof(float));
  }
  MetadataBuilder& set_bytes(std::string_view key, std::string_view bytes) {
    return set_numbers(key, gguf::ValueType::kU8, bytes.data(), bytes.size(), 1);
  }
  MetadataBuilder& remove(std::string_view key) {
    values_.erase(std::string(key));
    return *this;
  }

  gguf::Metadata metadata() const {
    std::map<std::string_view, gguf::Value> values;
    for (const auto& [key, value] : values_) values.emplace(key, value);
    return gguf::Metadata(std::move(values));
  }
  Result<std::unique_ptr<Tokenizer>> load() const { return Tokenizer::load(metadata()); }

 private:
  std::string_view keep(std::string_view bytes) { return kept_->emplace_back(bytes); }
  MetadataBuilder& put(std::string_view key, gguf::Value value) {
    values_.insert_or_assign(std::string(key), std::move(value));
    return *this;
  }
  MetadataBuilder& set_numbers(std::string_view key, gguf::ValueType type, const void* data, size_t count,
                               size_t element_bytes) {
    const std::string_view bytes = keep({static_cast<const char*>(data), count * element_bytes});
    gguf::Array array{.type = type, .size = count, .numbers = {}, .strings = {}, .arrays = {}};
    array.numbers = {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
    return put(key, {gguf::ValueType::kArray, std::move(array)});
  }

  std::shared_ptr<std::list<std::string>> kept_ = std::make_shared<std::list<std::string>>();  // shared with copies
  std::map<std::string, gguf::Value> values_;
};

using Texts = std::initializer_list<std::string_view>;

inline void append_byte_entries(std::vector<std::string>& tokens, std::vector<int32_t>& types) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'});
    types.push_back(static_cast<int32_t>(TokenType::kByte));
  }
}

inline void append_merged(std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ', 1);
    tokens.push_back(merge.substr(0, space) + merge.substr(space + 1));
  }
}

/// A byte-level vocabulary: 256 bytes, the results of `merges` ("l o"), in order, then control tokens.
inline MetadataBuilder byte_level_vocabulary(Texts merges, Texts control, std::string_view pre = "gpt-2") {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(byte_level_char(static_cast<unsigned char>(byte)));
  const std::vector<std::string> pairs(merges.begin(), merges.end());
  append_merged(tokens, pairs);
  std::vector<int32_t> types(tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  tokens.insert(tokens.end(), control.begin(), control.end());
  types.resize(tokens.size(), static_cast<int32_t>(TokenType::kControl));
  MetadataBuilder out;
  out.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", pre);
  out.set_strings("tokenizer.ggml.tokens", tokens).set_integers("tokenizer.ggml.token_type", types);
  return out.set_strings("tokenizer.ggml.merges", pairs);
}

/// A "gemma4" vocabulary: <unk> <s> </s>, the byte tokens from id 3 on, `characters`, the results of `merges`.
inline MetadataBuilder gemma4_vocabulary(Texts characters, Texts merges) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  append_byte_entries(tokens, types);
  tokens.insert(tokens.end(), characters.begin(), characters.end());
  const std::vector<std::string> pairs(merges.begin(), merges.end());
  append_merged(tokens, pairs);
  types.resize(tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  MetadataBuilder out;
  out.set("tokenizer.ggml.model", "gemma4").set_integer("tokenizer.ggml.bos_token_id", 1);
  out.set_strings("tokenizer.ggml.tokens", tokens).set_integers("tokenizer.ggml.token_type", types);
  return out.set_strings("tokenizer.ggml.merges", pairs);
}

/// A "llama" or "t5" vocabulary: <unk> <s> </s>, for "llama" the byte tokens from id 3 on, then `pieces`, scored -1,
/// -2, ...
inline MetadataBuilder sentencepiece_vocabulary(std::string_view model, Texts pieces) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  if (model == "llama") append_byte_entries(tokens, types);
  std::vector<float> scores(tokens.size(), 0.0f);
  for (const std::string_view piece : pieces) {
    tokens.emplace_back(piece);
    types.push_back(static_cast<int32_t>(TokenType::kNormal));
    scores.push_back(scores.back() - 1.0f);
  }
  MetadataBuilder out;
  out.set("tokenizer.ggml.model", model).set_strings("tokenizer.ggml.tokens", tokens);
  out.set_integers("tokenizer.ggml.token_type", types).set_floats("tokenizer.ggml.scores", scores);
  out.set_integer("tokenizer.ggml.unknown_token_id", 0).set_integer("tokenizer.ggml.bos_token_id", 1);
  return out.set_integer("tokenizer.ggml.eos_token_id", 2);
}

/// A "bert" vocabulary: [PAD] [UNK] [CLS] [SEP], then `pieces`.
inline MetadataBuilder wordpiece_vocabulary(Texts pieces) {
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  std::vector<int32_t> types(tokens.size(), static_cast<int32_t>(TokenType::kControl));
  tokens.insert(tokens.end(), pieces.begin(), pieces.end());
  types.resize(tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  MetadataBuilder out;
  out.set("tokenizer.ggml.model", "bert").set_strings("tokenizer.ggml.tokens", tokens);
  out.set_integers("tokenizer.ggml.token_type", types).set_integer("tokenizer.ggml.unknown_token_id", 1);
  return out.set_integer("tokenizer.ggml.cls_token_id", 2).set_integer("tokenizer.ggml.seperator_token_id", 3);
}

inline std::vector<int32_t> numbers(const std::vector<TokenId>& ids) {
  std::vector<int32_t> out;
  for (const TokenId id : ids) out.push_back(index(id));
  return out;
}

/// The path of ggml-vocab-NAME.gguf in the reference data in the folder `test_data`.
inline std::filesystem::path vocabulary_file(std::string_view test_data, std::string_view name) {
  return std::filesystem::path(test_data) / "tokenizers" / ("ggml-vocab-" + std::string(name) + ".gguf");
}

}  // namespace cairn::tokenizer::test
