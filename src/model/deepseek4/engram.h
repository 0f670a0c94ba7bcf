/// Engrams of DeepSeek V4.1: tables with a row for every hash of the last tokens, far larger than memory.
///
/// Tokens have classes (words that differ in case or accents share one). The hashes of the last 2, 3, ... classes give
/// rows of a table, several of each; they are read from the file's mapping as they are needed, and nothing else of a
/// table is. Addresses depend on token ids alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"
#include "model/metadata_reader.h"
#include "model/weights/weight_loader.h"

namespace cairn::deepseek4 {

struct EngramConfig {
  std::vector<int32_t> layers;   ///< that have one, ascending
  std::vector<int32_t> classes;  ///< of tokens
  int32_t pad_class = 0;         ///< of what is before the text
  int32_t order = 0;             ///< classes that a hash is made from, at most
  int32_t heads = 0;             ///< hashes of each number of classes
  int32_t row_dim = 0;
  std::vector<int64_t> primes;        ///< [layers, order - 1, heads]: rows that each hash chooses from
  std::vector<uint64_t> multipliers;  ///< [layers, order]

  int32_t rows_per_token() const { return (order - 1) * heads; }
  int64_t width() const { return int64_t{rows_per_token()} * row_dim; }
  /// Rows of a table; `engram` is the number of its layer in `layers`.
  int64_t table_rows(int32_t engram) const;
};

/// Empty if the file has no "engram." keys. Errors: kCorruptFile, kUnsupported, with the key.
Result<EngramConfig> read_engram(const MetadataReader& keys, int64_t vocabulary, int64_t layers);

struct EngramWeights {
  const gguf::Tensor* table = nullptr;
  Linear key_value;  ///< of the rows of a token: a key for each stream, then the value
  Buffer query_norm;
  Buffer key_norm;
};

/// The engram of a layer, whose tensors begin with `prefix`. The table is neither read nor copied.
Result<EngramWeights> load_engram(WeightLoader& binder, const gguf::Reader& file, const EngramConfig& config,
                                  int32_t engram, const std::string& prefix, int32_t streams, int64_t embedding);

/// Numbers of the rows of a token, [rows_per_token()]. `classes` are those of the token and of those before it, latest
/// first: `order` of them.
void engram_rows(const EngramConfig& config, int32_t engram, std::span<const int32_t> classes, std::span<int64_t> rows);

/// Lets the system read rows that are not in memory.
void fetch_engram_rows(const gguf::Tensor& table, std::span<const int64_t> rows);
/// out [rows, row_dim], in float32.
void read_engram_rows(const gguf::Tensor& table, int32_t row_dim, std::span<const int64_t> rows, std::span<float> out);

}  // namespace cairn::deepseek4
